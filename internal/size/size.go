// Package size formats numbers of bytes for people.
package size

import "fmt"

// Text returns a number of bytes in units of 1000, with one digit after the point: 812 B,
// 4.5 GB.
func Text(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, units := float64(n)/1000, []string{"kB", "MB", "GB", "TB"}
	for v >= 999.95 && len(units) > 1 {
		v, units = v/1000, units[1:]
	}
	return fmt.Sprintf("%.1f %s", v, units[0])
}
