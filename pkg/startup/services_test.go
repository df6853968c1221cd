package startup

import (
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// TestRunFileMode follows the run file of a service of s6 that may not be executed:
// s6-rc-compile makes it executable.
func TestRunFileMode(t *testing.T) {
	fsys := testImage(t, []txtar.File{{Name: "/usr/bin/app", Data: []byte("elf")}, {Name: "/init", Data: []byte("#!/bin/sh\n")}})
	text := []byte("#!/bin/sh\nexec app x\n")
	run := []layers.Entry{
		{Path: "etc/s6-overlay", Type: layers.Dir},
		{Path: "etc/s6-overlay/s6-rc.d", Type: layers.Dir},
		{Path: "etc/s6-overlay/s6-rc.d/web", Type: layers.Dir},
		{Path: "etc/s6-overlay/s6-rc.d/web/run", Type: layers.Regular, Mode: 0o644, Size: int64(len(text)), Content: text, Shebang: "/bin/sh"},
	}
	r := Follow(fsys.With(layers.NewLayer(run), source.Layer{}), v1.Config{Entrypoint: []string{"/init"}}, testStarters(t))
	if got := lastStarted(r); got != "app x" {
		t.Errorf("starts %q; %v", got, r.Unknown)
	}
}

// TestServices lists the commands of services that are certain not to be there.
func TestServices(t *testing.T) {
	programs := []txtar.File{{Name: "/usr/bin/supervisord", Data: []byte("elf")}, {Name: "/usr/bin/app", Data: []byte("elf")}}
	for i := range leastPrograms {
		programs = append(programs, txtar.File{Name: "/usr/bin/tool" + string(rune('a'+i)), Data: []byte("elf")})
	}
	for _, c := range []struct {
		name, file, text string
		start            []string
		want             []string
	}{
		{"supervisord", "/etc/supervisord.conf", "[program:a]\ncommand=app\n[program:b]\ncommand=gone --port 1\n[program:c]\ncommand=later\nautostart=false\n" +
			"[program:d]\ncommand=%(ENV_NOPE)s/x\n", []string{"supervisord", "-n"}, []string{"gone"}},
		{"s6", "/etc/services.d/web/run", "#!/bin/sh\ncd /srv\nexec gone\n", []string{"/init"}, []string{"gone"}},
		{"a condition that is not known", "/etc/services.d/web/run", "#!/bin/sh\nif [ -e /proc/driver/nvidia ]; then exec gone; fi\nexec app\n", []string{"/init"}, nil},
	} {
		files := append([]txtar.File{{Name: c.file, Data: []byte(c.text)}, {Name: "/init", Data: []byte("#!/bin/sh\n")}}, programs...)
		var got []string
		for _, a := range Follow(testImage(t, files), v1.Config{Cmd: c.start}, testStarters(t)).Services {
			got = append(got, a.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q are not there; want %q", c.name, got, c.want)
		}
	}
}
