package lint

import (
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// lowerTo lowers the severity of a finding to that of a verdict, and says why.
func (pass *Pass) lowerTo(f *Finding, v packs.Verdict) {
	f.Severity = f.Severity.AtMost(v.Severity)
	if v.Clause != "" {
		pass.lower(f, v.Clause, v.Values)
	}
}
