//go:build linux

package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// other is another program that reads images.
type other struct {
	tool, what string
	command    string // for sh: $1 is the layout, $2 the image in the registry, $3 the archive
}

// Each runs without a network and without a database of vulnerabilities: syft and
// trivy list packages, dive looks for files that one layer hides from another. dive
// reads only archives.
var others = []other{
	{"crane", "export of the registry's, to tar t", `crane export --insecure "$2" - | tar t >/dev/null`},
	{"syft", "packages of the layout", `exec env SYFT_CHECK_FOR_APP_UPDATE=false syft scan -q -o json "oci-dir:$1" >/dev/null`},
	{"trivy", "packages of the layout", `exec trivy image -q --offline-scan --skip-db-update --skip-java-db-update --skip-version-check --disable-telemetry -f cyclonedx --input "$1" >/dev/null`},
	{"dive", "layers of the archive", `exec dive --ci --lowestEfficiency 0 --highestUserWastedPercent 1 --source docker-archive "$3" >/dev/null`},
}

// patience limits a run of another program, in seconds.
const patience = 600

// fresh runs a command with its home, caches and temporary files in an empty
// directory. After patience it ends the command and all processes that it started.
func (b *bench) fresh(command string, args ...string) cost {
	home, err := os.MkdirTemp(b.dir, "home-")
	if err != nil {
		return cost{err: err}
	}
	defer os.RemoveAll(home)
	c := measure("env", append([]string{
		"HOME=" + home, "XDG_CACHE_HOME=" + home, "XDG_CONFIG_HOME=" + home, "TMPDIR=" + home,
		"timeout", "-k", "10", fmt.Sprint(patience), "sh", "-c", command, "sh",
	}, args...)...)
	var exit *exec.ExitError
	if errors.As(c.err, &exit) && exit.ExitCode() == 124 {
		c.err = fmt.Errorf("did not finish within %d minutes", patience/60)
	}
	return c
}

// others prints the cost of an image for imgcheck, and for each other program that
// is on PATH.
func (b *bench) others(img image, took map[string]cost) {
	fmt.Fprintln(b.out, "\ttime\tcpu\tpeak\twritten\t")
	row := func(what string, c cost) {
		if c.err != nil {
			b.notes = append(b.notes, fmt.Sprintf("%s: %.300s", what, strings.Join(strings.Fields(c.err.Error()), " ")))
			return
		}
		fmt.Fprintf(b.out, "%s\t%s\t%s\t%s\t%s\t\n", what, seconds(c.wall), seconds(c.cpu), megabytes(c.peak), megabytes(c.written))
	}
	row("imgcheck, the layout", took[b.layout(img)])
	row("imgcheck, the registry's", took[b.registry("gzip")])
	if file := archive(img); exists(file) {
		row("imgcheck, the archive", b.median(func() cost { return b.cold("docker-archive:"+file, none) }))
	}
	for _, o := range others {
		if _, err := exec.LookPath(o.tool); err != nil {
			b.notes = append(b.notes, o.tool+" is not on PATH")
			continue
		}
		row(o.tool+", "+o.what, b.median(func() cost { return b.fresh(o.command, img.Dir, b.registry("gzip"), archive(img)) }))
	}
}

// archive returns the file for an image as crane pull writes it: a docker archive
// with compressed layers.
func archive(img image) string { return img.Dir + ".tar" }

// makeArchive writes the image of a layout as an archive, unless an earlier run has
// left it.
func makeArchive(img image) error {
	if exists(archive(img)) {
		return nil
	}
	fmt.Fprintf(os.Stderr, "making %s\n", filepath.Base(archive(img)))
	index, err := layout.ImageIndexFromPath(img.Dir)
	if err != nil {
		return err
	}
	m, err := index.IndexManifest()
	if err != nil {
		return err
	}
	i, err := index.Image(m.Manifests[0].Digest)
	if err != nil {
		return err
	}
	ref, err := name.ParseReference("bench:1")
	if err != nil {
		return err
	}
	part := archive(img) + ".part"
	if err := tarball.WriteToFile(part, ref, i); err != nil {
		return err
	}
	return os.Rename(part, archive(img))
}
