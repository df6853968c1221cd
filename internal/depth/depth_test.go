package depth

import "testing"

func TestExceeds(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "[{}]": false, "[{[]}]": true, "[[": false, "[[[": true, "]]][[": false, "][][][": false,
	} {
		if got := Exceeds([]byte(text), 2); got != want {
			t.Errorf("%q nests more than 2 deep: %v", text, got)
		}
	}
}
