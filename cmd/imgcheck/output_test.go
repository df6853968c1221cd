package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLargeTemplate: no more is read of a template than a byte beyond the bound.
func TestLargeTemplate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "t")
	if err := os.WriteFile(name, make([]byte, maxTemplate+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := templateNamed(name); err == nil || !strings.HasSuffix(err.Error(), "is larger than 1024 KiB") {
		t.Errorf("%v", err)
	}
}
