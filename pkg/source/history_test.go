package source

import (
	"strings"
	"testing"
)

func TestWithoutArguments(t *testing.T) {
	for by, want := range map[string]string{
		"RUN |1 PIP_INDEX_URL=https://ci:SECRET@host/simple /bin/sh -c pip install x # buildkit": "RUN /bin/sh -c pip install x # buildkit",
		"|2 TOKEN=SECRET A=b c d /bin/sh -c make":                                                "/bin/sh -c make",
		"RUN |1 TOKEN=SECRET /bin/bash -o pipefail -c make # buildkit":                           "RUN /bin/bash -o pipefail -c make # buildkit",
		"RUN |1 TOKEN=SECRET pip install x # buildkit":                                           "RUN …",
		"ARG TOKEN=SECRET":                                              "ARG TOKEN=…",
		"/bin/sh -c #(nop)  ARG TOKEN=SECRET":                           "ARG TOKEN=…",
		"RUN /bin/sh -c pip install -i https://ci:SECRET@host/simple x": "RUN /bin/sh -c pip install -i https://…@host/simple x",
		"RUN /bin/sh -c echo a|1 b":                                     "RUN /bin/sh -c echo a|1 b",
		"COPY . . # buildkit":                                           "COPY . . # buildkit",
	} {
		got := withoutArguments(by)
		if got != want || strings.Contains(got, "SECRET") {
			t.Errorf("%s: %s, want %s", by, got, want)
		}
	}
}
