package dockerlint

import "testing"

// TestBelow: only an address of the same scheme and host whose path begins with the other's is
// below it, however it is written.
func TestBelow(t *testing.T) {
	for _, c := range []struct {
		address, base string
		want          bool
	}{
		{"https://download.pytorch.org/whl/cu128", "https://download.pytorch.org/whl", true},
		{"https://download.pytorch.org/whl/", "https://download.pytorch.org/whl", true},
		{"https://Download.PyTorch.org/whl", "https://download.pytorch.org/whl", true},
		{"https://ci:secret@pypi.nvidia.com/", "https://pypi.nvidia.com", true},
		{"https://pypi.nvidia.com", "https://pypi.nvidia.com/", true},
		{"https://download.pytorch.org/whlx", "https://download.pytorch.org/whl", false},
		{"https://download.pytorch.org/whl/../other", "https://download.pytorch.org/whl", false},
		{"https://download.pytorch.org/whl/%2e%2e/other", "https://download.pytorch.org/whl", false},
		{"https://download.pytorch.org@evil.example/whl", "https://download.pytorch.org/whl", false},
		{"https://evil.example/https://download.pytorch.org/whl", "https://download.pytorch.org/whl", false},
		{"https://download.pytorch.org.evil.example/whl", "https://download.pytorch.org/whl", false},
		{"https://download.pytorch.org:8443/whl", "https://download.pytorch.org/whl", false},
		{"http://download.pytorch.org/whl", "https://download.pytorch.org/whl", false},
		{"https:download.pytorch.org/whl", "https://download.pytorch.org/whl", false},
		{`https://download.pytorch.org\@evil.example/whl`, "https://download.pytorch.org/whl", false},
		{"", "https://download.pytorch.org/whl", false},
		{"https://a.example", "", false},
	} {
		if got := Below(c.address, c.base); got != c.want {
			t.Errorf("Below(%q, %q) = %v", c.address, c.base, got)
		}
	}
}
