// Package fleet writes what existing engines run to scan many images: a Kubernetes Job or
// CronJob, a workflow of GitHub or of Argo ([Fleet.Write]). It brings no engine of its own.
//
// A fleet is a list of images and a number of shards. Each shard is one run of imgcheck with
// the same list and its number ([Fleet.Args]); it keeps no state, may run any number of times,
// and leaves a report, which a registry, a volume or the engine collects. The package also
// reads which images run in a cluster ([Pods]), and stores reports in a registry and fetches
// them again ([Store], [Fetch]).
//
// It does not scan, asks no cluster anything, and does not know how reports are merged
// (pkg/report).
package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Bounds of a list of images: the bytes of the list, which a ConfigMap of Kubernetes limits
// (MaxSecretSize in its API), with room for the rest; the images of a shard, which a scan
// limits; the shards of a matrix of GitHub; and the bytes of a list in a workflow of GitHub,
// where it is a variable of a process (MAX_ARG_STRLEN in Linux).
const (
	MaxList     = 1<<20 - 16<<10
	MaxImages   = 1000
	maxMatrix   = 256
	maxVariable = 128<<10 - 1<<10
)

// perShard is the number of images of a shard if the user says no number of shards.
const perShard = 20

// Fleet is a list of images to scan in shards, and where.
type Fleet struct {
	Name      string   // of the objects, in the form of a DNS label
	Namespace string   // of Kubernetes, or "" for that of the caller
	Images    []string // references in registries, sorted, each once: see [Images]
	Shards    int      // or 0 for one for each twenty images
	Parallel  int      // shards that run at a time, or 0 for at most 8
	Imgcheck  string   // the image that pods run, which has imgcheck and needs no shell
	Release   string   // of imgcheck, which a job of GitHub installs
	Queue     string   // of Kueue, or ""
	Secret    string   // with the logins to registries (kubernetes.io/dockerconfigjson), or ""
	Schedule  string   // of a CronJob or a workflow of GitHub, in cron's form
	// Reports is a repository in which the shards store their reports, or "".
	Reports string
	// Claim is a volume (PersistentVolumeClaim, ReadWriteMany) for reports, or "".
	Claim string
	// Policy is the text of a policy (.imgcheck.yaml) for the scans, or "".
	Policy string
	// Scan are more arguments of imgcheck scan.
	Scan []string
}

// Kinds are the engines for which a fleet is written.
var Kinds = []string{"job", "cronjob", "github", "argo"}

// The forms of names: a DNS label (RFC 1123), of which a Job may have 52 characters when a
// CronJob adds its own and a number is added to its pods; a subdomain; a reference.
var (
	label     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$`)
	subdomain = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	cron      = regexp.MustCompile(`^[0-9A-Za-z*/,-]+( [0-9A-Za-z*/,-]+){4}$`)
	reference = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`)
	release   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)
)

// Images returns references sorted, each once, so that the tags of a repository, which share
// layers, are in one shard. It refuses one that is not in a registry: an engine's machines
// have no other.
func Images(refs []string) ([]string, error) {
	list := slices.Compact(slices.Sorted(slices.Values(refs)))
	for _, ref := range list {
		if scheme, _ := source.Split(ref); scheme != "registry" || strings.Contains(ref, "://") {
			return nil, fmt.Errorf("%s is in no registry: the machines of a fleet have no other images", ref)
		}
		if _, err := source.ParseReference(ref, false); err != nil || !reference.MatchString(ref) {
			return nil, fmt.Errorf("%q is no reference of an image in a registry", ref)
		}
	}
	return list, checkSize(list)
}

// checkSize returns an error if a list has no image, or more than an engine takes.
func checkSize(list []string) error {
	switch size := len(strings.Join(list, "\n")); {
	case len(list) == 0:
		return errors.New("there is no image: name some, or say -i FILE")
	case size > MaxList:
		return fmt.Errorf("the list of %d images has %d KiB, and a ConfigMap holds 1 MiB: make several fleets of it", len(list), size>>10)
	}
	return nil
}

// check checks a fleet and sets what was left to it.
func (f *Fleet) check(kind string) error {
	if err := checkSize(f.Images); err != nil {
		return err
	}
	if len(strings.Join(f.Images, "\n"))+len(f.Policy) > MaxList {
		return errors.New("the list of images and the policy are too large for a ConfigMap, which holds 1 MiB: make several fleets of it")
	}
	if !utf8.ValidString(f.Policy) {
		return errors.New("the policy is no text in UTF-8, as a ConfigMap's must be")
	}
	if f.Shards == 0 {
		f.Shards = min((len(f.Images)+perShard-1)/perShard, report.MaxShards)
		if kind == "github" {
			f.Shards = min(f.Shards, maxMatrix)
		}
	}
	if f.Parallel == 0 {
		f.Parallel = min(f.Shards, 8)
	}
	switch {
	case f.Shards < 1 || f.Shards > report.MaxShards:
		return fmt.Errorf("--shards %d: say 1 to %d", f.Shards, report.MaxShards)
	case f.Shards > len(f.Images):
		return fmt.Errorf("--shards %d: there are only %d images", f.Shards, len(f.Images))
	case kind == "github" && f.Shards > maxMatrix:
		return fmt.Errorf("--shards %d: a matrix of GitHub has at most %d jobs", f.Shards, maxMatrix)
	case (len(f.Images)+f.Shards-1)/f.Shards > MaxImages:
		return fmt.Errorf("--shards %d: a shard would have more than %d images", f.Shards, MaxImages)
	case f.Parallel < 1 || f.Parallel > f.Shards:
		return fmt.Errorf("--parallel %d: say 1 to %d, the number of shards", f.Parallel, f.Shards)
	case f.Reports != "" && f.Claim != "":
		return errors.New("--reports and --claim are two places for the reports: say one of them")
	case kind == "github" && strings.Contains(f.Policy, "${{"):
		return errors.New("GitHub would read ${{ in the policy")
	case kind == "github" && max(len(strings.Join(f.Images, "\n")), len(f.Policy)) > maxVariable:
		return fmt.Errorf("the list, or the policy, has more than %d KiB, which a step of GitHub cannot have: make several fleets of it", maxVariable>>10)
	case kind == "github" && f.Namespace+f.Queue+f.Secret+f.Claim+f.Reports != "":
		return errors.New("a workflow of GitHub has no --namespace, --queue, --secret and --claim, and keeps the reports itself")
	case kind == "github" && f.Imgcheck != "":
		return errors.New("a job of GitHub installs imgcheck: say --release instead of --image")
	case kind != "github" && f.Imgcheck == "":
		return errors.New("pods need an image with imgcheck: say --image, and see docs/fleet.md for how to make it")
	case kind == "argo" && f.Claim != "":
		return errors.New("a workflow of Argo keeps the reports itself, as artifacts: leave out --claim")
	case f.Schedule != "" && kind != "cronjob" && kind != "github":
		return errors.New("--schedule is for a CronJob or a workflow of GitHub")
	case kind == "cronjob" && f.Schedule == "":
		return errors.New("a CronJob needs a --schedule, such as '0 3 * * 1'")
	}
	if !printable(strings.NewReplacer("\n", "", "\t", "", "\r", "").Replace(f.Policy)) {
		return errors.New("the policy has characters that are no text")
	}
	if p := (&page{Fleet: f}); p.Stores() && p.says("--no-cache") {
		return errors.New("--index-to stores indexes from the cache of a shard: leave out --no-cache")
	}
	for _, a := range f.Scan {
		if !printable(a) || strings.Contains(a, "$(") || strings.Contains(a, "{{") {
			return fmt.Errorf("%q: an argument must be text, and an engine would read $( and {{ in it", a)
		}
	}
	return f.checkNames()
}

// printable reports whether YAML has a text as it is (https://yaml.org/spec/1.2.2/#51-character-set).
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == 0xfffe || r == 0xffff || r == 0xfeff })
}

// checkNames checks what the templates write into documents.
func (f *Fleet) checkNames() error {
	for _, n := range []struct {
		flag, value string
		form        *regexp.Regexp
		says        string
	}{
		{"--name", f.Name, label, "write small letters, digits and -, at most 42"},
		{"--namespace", f.Namespace, label, "it is no name of a namespace"},
		{"--queue", f.Queue, subdomain, "it is no name of a queue of Kueue"},
		{"--secret", f.Secret, subdomain, "it is no name of a Secret"},
		{"--claim", f.Claim, subdomain, "it is no name of a PersistentVolumeClaim"},
		{"--image", f.Imgcheck, reference, "it is no reference of an image"},
		{"--schedule", f.Schedule, cron, "write the five fields of cron, such as '0 3 * * 1'"},
		{"--release", f.Release, release, "it is no release of imgcheck"},
	} {
		if n.value != "" && !n.form.MatchString(n.value) {
			return fmt.Errorf("%s %q: %s", n.flag, n.value, n.says)
		}
	}
	if f.Reports == "" {
		return nil
	}
	if _, err := tagged(f.Reports+":a", false); err != nil || !reference.MatchString(f.Reports) {
		return fmt.Errorf("--reports %q: write a repository, such as ghcr.io/org/reports", f.Reports)
	}
	return nil
}

// Run returns the name of the fleet with the first digits of a digest of its list and of what
// its shards do: another list has other objects, so that it does not meddle with a fleet that
// runs, and the same list has the same ones.
func (f *Fleet) Run() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n%q\n%d\n%s\n%q\n", f.Images, f.Scan, f.Shards, f.Imgcheck, f.Policy)
	return f.Name + "-" + hex.EncodeToString(sum.Sum(nil))[:8]
}

// Args returns the arguments of imgcheck with which a shard runs in Kubernetes: the list is a
// file of a ConfigMap, and $(JOB_COMPLETION_INDEX) stands for the shard's number. A finding does
// not make a shard fail (--fail-on never); an image that cannot be scanned does, with status 2,
// after the report is written.
func (f *Fleet) Args() []string { return (&page{f, ofJob}).Args() }

// Write writes the fleet for an engine, one of Kinds. The same fleet gives the same bytes.
func (f *Fleet) Write(w io.Writer, kind string) error {
	at, ok := places[kind]
	if !ok {
		return fmt.Errorf("there is no engine %q: say %s", kind, strings.Join(Kinds, ", "))
	}
	own := *f
	if err := own.check(kind); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, kind+".yaml", &page{&own, at}); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
