package dockerline

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// config makes the config of an image: each line of a text is an entry of the history, and
// makes no layer if it begins with "-".
func config(text string, env ...string) *v1.ConfigFile {
	cfg := &v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: v1.Config{Env: env}}
	for l := range strings.SplitSeq(text, "\n") {
		by, empty := strings.CutPrefix(l, "-")
		cfg.History = append(cfg.History, v1.History{CreatedBy: by, EmptyLayer: empty})
	}
	return cfg
}

func withShell(cfg *v1.ConfigFile, shell ...string) *v1.ConfigFile {
	cfg.Config.Shell = shell
	return cfg
}

func TestFromHistory(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		cfg        *v1.ConfigFile
		want, err  string
	}{
		{"a base below", "FROM a\nRUN x\nENV A=b\nCOPY y z\n", config("base\n-base\nRUN /bin/sh -c x # buildkit\n-ENV A=b\nCOPY y z # buildkit"), "?, 2-2, 4-4", ""},
		{"another command", "FROM a\nRUN x\nCOPY y z\n", config("RUN /bin/sh -c w # buildkit\nCOPY y z # buildkit"), "", "D is not how the image was built: line 2 is another instruction in the image's history"},
		{"one more at the end", "FROM a\nRUN x\n", config("RUN /bin/sh -c x # buildkit\nRUN /bin/sh -c y # buildkit"), "", "D is not how the image was built: line 2 is another instruction in the image's history"},
		{"more than the history", "FROM a\nRUN x\nRUN x\n", config("RUN /bin/sh -c x # buildkit"), "", "D is not how the image was built: it has more instructions than the image's history"},
		{"layers below scratch", "FROM scratch\nCOPY x y\n", config("base\nCOPY x y # buildkit"), "", "D is not how the image was built: it begins with scratch, and the image's history has more than its instructions"},
		{"a build argument", "FROM a\nARG V=1\nRUN x $V\n", config("-ARG V=2\nRUN |1 V=2 /bin/sh -c x $V # buildkit"), "3-3", ""},
		{"a variable of the base", "FROM a\nENV PATH=/x:$PATH\nWORKDIR $HOMES/y\n", config("-ENV PATH=/x:/bin\nWORKDIR /h/y", "PATH=/x:/bin", "HOMES=/h"), "3-3", ""},
		{"an argument that ENV keeps", "FROM a\nARG V=1\nENV V=$V\nRUN x\n", config("-ARG V=3\n-ENV V=3\nRUN |1 V=3 /bin/sh -c x # buildkit", "V=3"), "4-4", ""},
		{"another stage", "FROM a AS one\nRUN x\nFROM a\nRUN y\n", config("RUN /bin/sh -c x # buildkit"), "2-2 one", ""},
		{"two stages fit", "FROM a AS one\nRUN x\nFROM a\nRUN x\n", config("RUN /bin/sh -c x # buildkit"), "", "several stages of D fit the image's history"},
		{"only a base", "FROM a\n", config("RUN /bin/sh -c x # buildkit"), "", "D is not how the image was built: the stage has no instructions"},
		{"not BuildKit", "FROM a\nRUN x\n", config("/bin/sh -c x"), "", "D is not how the image was built: line 2 is another instruction in the image's history"},
		{"other releases' EXPOSE", "FROM a\nRUN x\nEXPOSE 80\n", config("RUN /bin/sh -c x # buildkit\n-EXPOSE map[80/tcp:{}]"), "2-2", ""},
		{"no Dockerfile", "RUN x\n", config("x"), "", "D is not how the image was built: it has no stage"},
		{"a platform's argument", "FROM a\nARG TARGETARCH\nARG HTTP_PROXY\nRUN x $TARGETARCH\n", config("-ARG TARGETARCH=amd64\n-ARG HTTP_PROXY\nRUN |2 TARGETARCH=amd64 HTTP_PROXY= /bin/sh -c x $TARGETARCH # buildkit"), "4-4", ""},
		{"an argument repeated in stages", "ARG V=1\nFROM a AS b\nARG V\nRUN x $V\nFROM a\nARG V\nENV X=$V\nCOPY --from=b /x /y\nRUN y $X\n", config("-ARG V=2\n-ENV X=2\nCOPY /x /y # buildkit\nRUN |1 V=2 /bin/sh -c y $X # buildkit", "X=2"), "8-8, 9-9", ""},
		{"a shell of the file", "FROM a\nSHELL [\"/bin/bash\", \"-o\", \"pipefail\", \"-c\"]\nRUN x | y\nRUN [\"z\", \"a b\"]\n", config("-SHELL [/bin/bash -o pipefail -c]\nRUN /bin/bash -o pipefail -c x | y # buildkit\nRUN z a b # buildkit"), "3-3, 4-4", ""},
		{"a shell of the base", "FROM a\nRUN x\n", config("RUN /usr/local/bin/_dockerfile_shell.sh x # buildkit"), "", "D is not how the image was built: line 2 is another instruction in the image's history"},
		{"the base's shell", "FROM a\nRUN x\n", withShell(config("RUN /usr/local/bin/_dockerfile_shell.sh x # buildkit"), "/usr/local/bin/_dockerfile_shell.sh"), "2-2", ""},
		{"the base's shell and the file's", "FROM a\nRUN x\nSHELL [\"/bin/bash\", \"-c\"]\nRUN y\n", withShell(config("RUN /bin/zsh -c x # buildkit\n-SHELL [/bin/bash -c]\nRUN /bin/bash -c y # buildkit"), "/bin/bash", "-c"), "", "D is not how the image was built: line 2 is another instruction in the image's history"},
		{"a directory below the base's", "FROM a\nWORKDIR app\nRUN x\nWORKDIR more\n", config("WORKDIR /srv/app\nRUN /bin/sh -c x # buildkit\nWORKDIR /srv/app/more"), "2-2, 3-3, 4-4", ""},
		{"another directory", "FROM a\nWORKDIR app\nRUN x\n", config("WORKDIR /srv/apps\nRUN /bin/sh -c x # buildkit"), "", "D is not how the image was built: line 2 is another instruction in the image's history"},
		{"ONBUILD of the base", "FROM a\nRUN x\n", config("base\nRUN /bin/sh -c pip install -r r.txt # buildkit\nCOPY . /src # buildkit\nRUN /bin/sh -c x # buildkit"), "?, ?, ?, 2-2", ""},
		{"no history", "FROM a\nRUN x\n", &v1.ConfigFile{}, "", "D is not how the image was built: it has more instructions than the image's history"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, _, err := FromHistory(t.Context(), "D", []byte(tt.text), tt.cfg)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.err || brief(lines) != tt.want {
				t.Errorf("%q, error %s", brief(lines), got)
			}
		})
	}
}

// FuzzFromHistory compares any file with any history: a line for each layer, inside the
// file, or an error.
func FuzzFromHistory(f *testing.F) {
	f.Add("FROM a AS b\nARG V=1\nRUN <<E\nx\nE\nFROM b\nCOPY --from=b x y\n", "base\n-ARG V=2\nRUN |1 V=2 /bin/sh -c x\n # buildkit\nCOPY x y # buildkit", "PATH=/bin")
	f.Add("FROM a\nENV A=$A\nRUN x\n", "-ENV A=b\nRUN /bin/sh -c x # buildkit", "A=b")
	f.Fuzz(func(t *testing.T, text, history, env string) {
		if len(text)+len(history)+len(env) > 4096 {
			return
		}
		cfg := config(history, env)
		lines, _, err := FromHistory(t.Context(), "Dockerfile", []byte(text), cfg)
		layers := 0
		for _, h := range cfg.History {
			if !h.EmptyLayer {
				layers++
			}
		}
		if err != nil && lines != nil || err == nil && len(lines) != layers {
			t.Errorf("%d lines of %d layers, error %v", len(lines), layers, err)
		}
		for _, l := range lines {
			if l != nil && (l.Line < 1 || l.EndLine < l.Line || l.EndLine > strings.Count(text, "\n")+1) {
				t.Errorf("%+v", l)
			}
		}
	})
}
