package fix

import "testing"

// TestChosen checks the release that stands for the one that pip will choose: it meets the
// specifiers, or there is none.
func TestChosen(t *testing.T) {
	for specifiers, want := range map[string]string{
		"==1.2.3":             "1.2.3",
		"==2.6.*":             "2.6",
		"<2":                  "1.99",
		"<=0.4.38,>=0.4.38":   "0.4.38",
		">=9.8,<10":           "9.8",
		"<10,>=9.8":           "9.99",
		"~=1.4":               "1.4",
		"<0":                  "",
		"==1,==2":             "",
		"":                    "",
		"no specifier at all": "",
	} {
		got := chosen(specifiers)
		if got != want {
			t.Errorf("%q: %q, want %q", specifiers, got, want)
		}
		if got != "" && !meets(got, specifiers) {
			t.Errorf("%q: %q does not meet it", specifiers, got)
		}
	}
}
