package pyimport

func init() {
	table := map[string]func(*Run, *args) value{}
	for name, op := range map[string]string{"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "ge": ">=", "gt": ">"} {
		table[name] = func(r *Run, a *args) value {
			if len(a.pos) != 2 {
				return unknownf("operator.%s", name)
			}
			is, known := r.relation(op, a.pos[0], a.pos[1])
			if !known {
				if u := because(a.pos[0], a.pos[1]); u != nil {
					return u
				}
				return unknownf("operator.%s", name)
			}
			return is
		}
	}
	functions("operator _operator", table)
}
