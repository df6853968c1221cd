package rules_test

import (
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/rules"
)

// TestTorchBuilds checks that the packs and the tables for Dockerfiles name the same builds of torch.
func TestTorchBuilds(t *testing.T) {
	b, err := fs.ReadFile(rules.FS, "dockerlint/tables/pytorch.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tables struct {
		Releases []struct {
			Release string
			Builds  []string
		}
	}
	if err := yaml.Unmarshal(b, &tables); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, r := range tables.Releases {
		want[r.Release] = r.Builds
	}
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range set.CPUBuilds {
		if row.Package != "torch" {
			continue
		}
		if diff := cmp.Diff(want, row.Builds); diff != "" {
			t.Error(diff)
		}
		for _, tt := range []struct{ release, cuda, want string }{
			{"2.6.0", "12.4.1", "cu124"},
			{"2.6.0", "12.8", "cu126"},
			{"2.6.0", "12.2", "cu124"},
			{"2.6.0", "12", "cu126"},
			{"2.6.0", "13.0", ""},
			{"2.6.0", "", ""},
			{"1.0", "12.4", ""},
			{"2.9.1", "13.1", "cu130"},
			{"2.4", "11.7", "cu118"},
		} {
			if got := row.BuildFor(tt.release, tt.cuda); got != tt.want {
				t.Errorf("%s for CUDA %q: %q, want %q", tt.release, tt.cuda, got, tt.want)
			}
		}
		return
	}
	t.Error("there is no row for torch")
}
