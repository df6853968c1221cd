package lint

import "testing"

// TestTable checks that the table has a row for each rule of the packs, and no other rule.
// Run checks that a row's findings are of its rules.
func TestTable(t *testing.T) {
	has, want := map[string]bool{}, map[string]bool{}
	for _, r := range table {
		for _, id := range r.ids {
			has[id] = true
		}
	}
	for _, r := range embedded(t).Rules {
		want[r.ID] = true
	}
	for id := range want {
		if !has[id] {
			t.Errorf("no row of the table has the rule %s", id)
		}
	}
	for id := range has {
		if !want[id] {
			t.Errorf("no pack has the rule %s of the table", id)
		}
	}
}

// TestForeignFinding checks that a finding of a rule that its row does not have is an error.
func TestForeignFinding(t *testing.T) {
	row := rule{ids: ids("ld-path-file"), find: func(*Pass) []Finding { return []Finding{{Rule: "gpu-hidden"}} }}
	if _, err := apply(nil, []rule{row}); err == nil {
		t.Error("a finding of gpu-hidden in the row of ld-path-file is no error")
	}
}
