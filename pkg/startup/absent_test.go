package startup

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/tools/txtar"
)

// TestAbsent compares the error with which a container ends whose script runs a program
// that is not there with that of the shells (dash 0.5.12, bash 5.2), or "" where it is not
// certain.
func TestAbsent(t *testing.T) {
	cases := []struct{ script, want string }{
		{"#!/bin/sh\nexec server", "/s: 2: exec: server: not found"},
		{"#!/bin/sh\nserver", "/s: 2: server: not found"},
		{"#!/bin/sh\nset -e\nserver\nexec app", "/s: 3: server: not found"},
		{"#!/bin/bash\nexec server", "/s: line 2: exec: server: not found"},
		{"#!/bin/bash\nmain() {\n\tserver \"$@\"\n}\nmain", "/s: line 3: server: command not found"},
		{"#!/bin/bash\ncd /srv\n./server", "/s: line 3: ./server: No such file or directory"},
		{"#!/bin/bash\ncd /srv && exec ./server", "/s: line 2: /srv/server: No such file or directory"},
		{"#!/bin/bash\nmkdir -p /data\nexec tini -- server", "exec server: No such file or directory"},
		{"#!/bin/bash\nmkdir -p /data && exec /srv/venv/bin/server", "/s: line 2: /srv/venv/bin/server: No such file or directory"},

		{"#!/bin/sh\nserver\nexec app", ""},                               // it goes on
		{"#!/bin/sh\nserver || true", ""},                                 // caught
		{"#!/bin/sh\nif server; then exec app; fi", ""},                   // a question
		{"#!/bin/sh\nserver &\nexec app", ""},                             // in the background
		{"#!/bin/sh\n[ -n \"$HOSTNAME\" ] && exec server\napp", ""},       // the condition is not known
		{"#!/bin/sh\napp install\nexec server", ""},                       // app may make it
		{"#!/bin/sh\n. /run/env.sh\nexec server", ""},                     // dash ends before it
		{"#!/bin/sh\neval \"$(app hook)\"\nexec server", ""},              // a function, perhaps
		{"#!/bin/sh\nexec \"$(app path)\"", ""},                           // the name is not known
		{"#!/bin/sh\necho x >/usr/bin/server\nexec server", ""},           // it is written
		{"#!/bin/sh\nexport PATH=\"$(app path):$PATH\"\nexec server", ""}, // PATH is not known
		{"#!/bin/sh\nexec nvidia-smi", ""},                                // of the machine
		{"#!/bin/sh\nexec /dev/shm/server", ""},                           // of the runtime
		{"#!/bin/sh\nexec tini -g server", ""},                            // an option may take it
		{"#!/bin/sh\nserver() { exec app; }\nserver", ""},
		{"#!/bin/bash\nserver\n[[ -n $X ]]", ""},
	}
	starters := testStarters(t)
	for _, c := range cases {
		fsys := testImage(t, []txtar.File{
			{Name: "/s", Data: []byte(c.script + "\n")},
			{Name: "/usr/bin/app", Data: []byte("elf")},
			{Name: "/usr/bin/tini", Data: []byte("elf")},
			{Name: "/srv", Data: []byte("dir")},
		})
		r := Follow(fsys, v1.Config{Entrypoint: []string{"/s"}}, starters)
		got := ""
		if r.Absent != nil {
			got = r.Absent.Error
		}
		if got != c.want {
			t.Errorf("%s\nends with %q, not %q", c.script, got, c.want)
		}
	}
}
