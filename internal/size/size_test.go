package size

import "testing"

func TestText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 4_500_000_000: "4.5 GB", 2 << 30: "2.1 GB", 1e15: "1000.0 TB",
	} {
		if got := Text(n); got != want {
			t.Errorf("%d bytes are %q, not %q", n, got, want)
		}
	}
}
