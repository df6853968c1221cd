package startup

import (
	"reflect"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/tools/txtar"
)

// FuzzFollow: following any script, under any shell, ends within its bounds, gives the
// same twice, and no program of the config's command has an unknown name.
func FuzzFollow(f *testing.F) {
	for _, s := range []string{
		"#!/bin/sh\nexec \"$@\"", "#!/bin/bash\nfor i in 1 2 3; do x=\"$x$x$i\"; done\neval \"$x\"",
		"#!/bin/bash\nf() { f \"$@\" x; f; }; f", "#!/bin/sh\nx=aaaaaaaa; while :; do x=$x$x; done; exec $x",
		"#!/bin/bash\na=(1 2); a[7]=3; echo ${a[@]:1:2} ${!a} ${a[-1]} $((a[0]++ / 0)) ${x//a/b}",
		"#!/bin/bash\ncase $RANDOM in 1) exit 1;; *) source \"$0\";; esac\npython - <<E\nimport x\nE",
		"#!/bin/bash\nif [ $(date) = 1 ]; then set -- a; fi; shift; exec python \"$@\" & wait",
		"#!/init\n", "#!/usr/bin/env -S python -m gunicorn -c\n", "#!/bin/bash\n. ./s; exec \"$0\"; trap x EXIT; x=${1:?}; conda activate x",
		"#!/bin/bash\nwhile read -r a; do $a; done < /etc/passwd; until [ -f x ]; do break 2; done; ((i=1,i<<70)); [[ a =~ (a*)* ]]",
	} {
		f.Add(s)
	}
	starters := testStarters(f)
	f.Fuzz(func(t *testing.T, script string) {
		if len(script) > 64<<10 {
			return
		}
		fsys := testImage(t, []txtar.File{{Name: "/s.sh", Data: []byte(script)}, {Name: "/usr/bin/python", Data: []byte("elf")}})
		c := v1.Config{Cmd: []string{"/s.sh", "a", "b"}, WorkingDir: "/"}
		r := Follow(fsys, c, starters)
		if again := Follow(fsys, c, starters); !reflect.DeepEqual(r, again) {
			t.Error("not the same twice")
		}
		if len(r.Programs) > maxPrograms || len(r.Unknown) > maxUnknown {
			t.Error("more than the bounds")
		}
		for _, p := range r.Programs {
			if strings.Contains(p.Path, Hole) {
				t.Errorf("the path %q is not known", p.Path)
			}
			n := 0
			for _, a := range p.Args {
				n += len(a)
			}
			if n > 64*maxValue {
				t.Errorf("%d bytes of arguments", n)
			}
		}
	})
}
