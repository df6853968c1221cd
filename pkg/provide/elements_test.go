package provide

import (
	"strings"
	"testing"
)

// TestElements: pages of millions of elements are refused before they are parsed.
func TestElements(t *testing.T) {
	page := []byte(`{"meta": {"api-version": "1.0"}, "files": [` + strings.Repeat("{},", maxCommas) + `{}]}`)
	if _, err := parseRedist(page); err == nil || !strings.Contains(err.Error(), "has more than 2097152 elements") {
		t.Errorf("%v", err)
	}
	if err := checkElements(page[:len(page)/2]); err != nil {
		t.Errorf("%v", err)
	}
}
