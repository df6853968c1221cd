package pyimport

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestDev(t *testing.T) {
	src, in := thisMachine()
	var names []string
	if s := os.Getenv("MODS"); s != "" {
		names = strings.Fields(s)
	} else {
		out, err := exec.Command(python, "-I", "-c", "import sys; print(' '.join(sorted(sys.stdlib_module_names)))").Output()
		if err != nil {
			t.Fatal(err)
		}
		names = strings.Fields(string(out))
	}
	cache := map[string][]string{}
	b, _ := os.ReadFile("/tmp/pyimport-real.json")
	_ = json.Unmarshal(b, &cache)
	defer func() {
		b, _ := json.Marshal(cache)
		_ = os.WriteFile("/tmp/pyimport-real.json", b, 0o644)
	}()
	good, total := 0, 0
	miss, more := map[string]int{}, map[string]int{}
	for _, name := range names {
		if name == "antigravity" || name == "this" || name == "idlelib" {
			continue
		}
		real := map[string]bool{}
		if c, ok := cache[name]; ok {
			for _, m := range c {
				real[m] = true
			}
		} else {
			real = imported(t, name)
			cache[name] = sortedKeys(real)
		}
		r := New(src, in, all{}, Options{Cwd: "/", Env: map[string]string{"HOME": "/root"}})
		site := r.Site()
		if os.Getenv("TREE") != "" {
			fmt.Println(in.PthImports)
			show(site, 0)
		}
		n := r.Import(name)
		got := map[string]bool{}
		for _, m := range r.Loaded() {
			got[m] = true
		}
		total++
		var diff []string
		for _, m := range sortedKeys(real) {
			if !got[m] {
				diff = append(diff, "-"+m)
				miss[m]++
			}
		}
		for _, m := range sortedKeys(got) {
			if !real[m] {
				diff = append(diff, "+"+m)
				more[m]++
			}
		}
		if len(diff) == 0 && n.Failed == nil {
			good++
			continue
		}
		s := ""
		if n.Failed != nil {
			s = fmt.Sprintf(" FAILED %s: %s (%s)", n.Failed.Type, n.Failed.Text, n.Failed.Doubt)
		}
		fmt.Printf("%s: %s%s\n", name, strings.Join(diff, " "), s)
		if os.Getenv("TREE") != "" {
			show(n, 0)
		}
	}
	fmt.Println(good, "of", total)
	for _, c := range []map[string]int{miss, more} {
		keys := sortedKeys(c)
		slices.SortStableFunc(keys, func(a, b string) int { return c[b] - c[a] })
		for i, k := range keys {
			if i > 25 {
				break
			}
			fmt.Print(k, " ", c[k], "; ")
		}
		fmt.Println()
	}
}

func show(n *Node, depth int) {
	f := ""
	if n.Failed != nil {
		f = fmt.Sprintf(" FAILED %s: %s (%s)", n.Failed.Type, n.Failed.Text, n.Failed.Doubt)
	}
	fmt.Printf("%s%s %s [%s] %s caught=%q maybe=%q%s %q\n", strings.Repeat("  ", depth), n.Kind, n.Name, n.At, n.By, n.Caught, n.Maybe, f, n.Unknown)
	for _, c := range n.Nodes {
		show(c, depth+1)
	}
}
