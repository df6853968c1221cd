package nearest

import "testing"

func TestOf(t *testing.T) {
	names := []string{"scan", "convert", "fail-on", "format", "ignore", "severities"}
	for s, want := range map[string]string{
		"sacn": "scan", "scna": "scan", "fail_on": "fail-on", "failon": "fail-on", "formt": "format", "Format": "format",
		"ignores": "ignore", "severity": "severities", "conv": "convert", "x": "", "": "", "zzzzzz": "", "oci:image": "",
	} {
		if got := Of(s, names); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	if got := Hint("sacn", names); got != ": did you mean scan?" {
		t.Error(got)
	}
	if got := Hint("nothing at all", names); got != "" {
		t.Error(got)
	}
}
