package elfdeps

import (
	"cmp"
	"slices"
	"strings"
)

// follow is _dl_map_object_deps (elf/dl-deps.c). The first miss ends it,
// except in a tracing process.
func (p glibc) follow(queue []*Module, dlopen bool) *Error {
	var first *Error
	root, walked := queue[0], map[*Module]bool{} // walked has a key for each object that is or was in the queue
	for _, m := range queue {
		walked[m] = false
	}
	join := func(dep *Module) {
		if _, was := walked[dep]; dep != nil && !was {
			walked[dep] = false
			queue = append(queue, dep)
		}
	}
	for i := 0; i < len(queue); i++ {
		m := queue[i]
		m.searched = true
		if walked[m] {
			continue
		}
		walked[m] = true
		needed := m.Object.Needed
		if m.mapped { // its needs are loaded already, and join the list all the same
			for _, dep := range m.Deps {
				join(dep)
			}
			if p.trace {
				continue
			}
			needed = nil
		}
		m.mapped = true
		for _, name := range needed {
			if !p.work().spend(1) {
				return p.Loader.spent(name, m)
			}
			if m.lost(name) {
				p.Cut = cmp.Or(p.Cut, m)
				m.Deps = append(m.Deps, nil)
				continue
			}
			dep, err := p.need(m, name)
			if err != nil {
				p.Misses = append(p.Misses, err)
				if !p.trace {
					return cmp.Or(p.notFirst(root, queue), err)
				}
				if first == nil && !err.miss {
					first = err
				}
			}
			m.Deps = append(m.Deps, dep)
			join(dep)
		}
		before, err := p.filtees(m, queue[:i])
		queue, i = putBefore(queue, i, before)
		for _, dep := range before {
			if !walked[dep] {
				walked[dep] = false
			}
		}
		if err != nil && !p.trace {
			return cmp.Or(p.notFirst(root, queue), err)
		}
		if first == nil {
			first = err
		}
	}
	if err := p.notFirst(root, queue); err != nil {
		return err
	}
	p.setGroup(root, queue)
	if !dlopen {
		p.placeLoader(queue)
	}
	if p.trace {
		// glibc's trace ends at an unusable file; this process goes on, so that callers see
		// the rest, and Status and Stderr report the file.
		if p.fatal == nil && !dlopen {
			p.fatal = first
		}
		return nil
	}
	return first
}

// lost reports whether a name of DT_NEEDED is empty because the file ends before
// its string table does. Nothing requests it: the process dies by SIGBUS when it
// reads the name.
func (m *Module) lost(name string) bool { return name == "" && m.Truncated() }

// notFirst returns the failure of an assertion that glibc before 2.32 has in
// _dl_map_object_deps: an object must come first in its own list of dependencies. An
// object with filtees does not (bug 16272). The failure hides any miss before it.
func (p glibc) notFirst(root *Module, queue []*Module) *Error {
	if queue[0] == root || p.Loader.release >= 232 {
		return nil
	}
	return p.Loader.assertion("", root, "dl-deps.c", "_dl_map_object_deps", "map->l_searchlist.r_list[0] == map")
}

// placeLoader moves the loader in the list of objects to its place among the program's
// dependencies (dl_main, elf/rtld.c). A loader that no object needs leaves the list up to
// 2.39 and becomes its last from 2.41 on.
func (p glibc) placeLoader(queue []*Module) {
	i := slices.Index(queue, p.loader)
	if i < 0 && p.Loader.release >= 241 {
		i, p.loader.searched = len(queue), true
	}
	if i > 0 {
		p.move(p.loader, queue[i-1], 1)
	}
}

// putBefore inserts the filtees of queue[i] before it. It returns the new queue and
// the index before the first filtee, so that the caller's loop goes on with the
// filtees.
func putBefore(queue []*Module, i int, filtees []*Module) ([]*Module, int) {
	if len(filtees) == 0 {
		return queue, i
	}
	m := queue[i]
	queue = slices.DeleteFunc(queue, func(o *Module) bool { return slices.Contains(filtees, o) })
	i = slices.Index(queue, m)
	return slices.Insert(queue, i, filtees...), i - 1
}

// need serves a DT_NEEDED, DT_FILTER or DT_AUXILIARY of m after expanding its
// tokens (expand_dst, elf/dl-deps.c). It returns neither a module nor an error for
// a name with an $ORIGIN that is not known.
func (p glibc) need(m *Module, name string) (*Module, *Error) {
	if strings.Contains(name, "$") {
		full, ok := p.expand(m, name)
		if p.secure && full != name {
			return nil, &Error{Name: name, Subject: name, Message: "DST not allowed in SUID/SGID programs", By: m}
		}
		if !ok || full == "" {
			return nil, nil
		}
		name = full
	}
	dep, err := p.request(name, m, false)
	if err != nil && p.trace && err.miss {
		p.listed = append(p.listed, Listed{Name: name})
	}
	return dep, err
}

// filtees loads what DT_FILTER and DT_AUXILIARY of m name, and moves it before m,
// so that symbols are found there first. A missing DT_AUXILIARY is no error. earlier
// are the objects before m in the queue. It returns the moved objects.
func (p glibc) filtees(m *Module, earlier []*Module) ([]*Module, *Error) {
	var before []*Module
	var fault *Error // the first unusable DT_FILTER of a tracing process
	for i, name := range slices.Concat(m.Object.Filter, m.Object.Auxiliary) {
		if p.work().Err() != nil {
			return before, p.Loader.spent(name, m)
		}
		lines := len(p.listed)
		dep, err := p.need(m, name)
		if err != nil {
			if i < len(m.Object.Filter) {
				p.Misses = append(p.Misses, err)
				if !p.trace {
					return before, err
				}
				if fault == nil && !err.miss {
					fault = err
				}
			}
			if len(p.listed) > lines { // ldd's list has the miss before m as well
				miss := p.listed[lines]
				p.listed = p.listed[:lines]
				at := slices.IndexFunc(p.listed, func(e Listed) bool { return e.Module == m })
				p.listed = slices.Insert(p.listed, at, miss)
			}
			continue
		}
		p.work().spend(cells(len(m.link.filtees) + len(earlier) + len(before)))
		if dep != nil && !slices.Contains(m.link.filtees, dep) {
			m.link.filtees = append(m.link.filtees, dep)
		}
		if dep == nil || dep == m || slices.Contains(earlier, dep) || slices.Contains(before, dep) {
			continue
		}
		p.move(dep, m, 0)
		before = append(before, dep)
	}
	return before, fault
}

// setGroup makes list the group of m, once, and sorts dependencies (the end of
// _dl_map_object_deps).
func (p glibc) setGroup(m *Module, list []*Module) {
	if m.link.group.list != nil {
		return
	}
	m.link.group.list = slices.Clone(list)
	p.work().spend(len(list))
	for _, o := range list {
		if o != m && o.link.sorted == nil && o.link.group.list == nil && (len(o.Deps) > 0 || len(o.link.filtees) > 0) {
			o.link.sorted = append([]*Module{o}, slices.DeleteFunc(slices.Concat(o.Deps, o.link.filtees), func(d *Module) bool { return d == nil })...)
		}
	}
	order := []*Module{m}
	for _, o := range list {
		if o != m {
			order = append(order, o)
		}
	}
	switch {
	case p.Loader.release >= 235:
		// m stays first, even in a circle; not in 2.35, Ubuntu's included (bug 28937,
		// fixed in 2.37 and in Debian's 2.36).
		order = sortDepthFirst(order, p.Loader.release >= 236 && m.Object.Soname != "libc.so.6")
	default:
		sortByMoving(order[1:], p.work())
	}
	m.link.sorted = order
}

// sortDepthFirst is _dl_sort_maps_dfs (elf/dl-sort-maps.c), used from glibc 2.35 on.
// It puts the dependencies of an object behind it.
func sortDepthFirst(list []*Module, keepFirst bool) []*Module {
	visited := map[*Module]bool{}
	var post []*Module
	var visit func(m *Module)
	visit = func(m *Module) {
		if visited[m] {
			return
		}
		visited[m] = true
		for _, d := range m.link.sorted {
			if !visited[d] && !d.Main {
				visit(d)
			}
		}
		post = append(post, m)
	}
	for _, m := range slices.Backward(list) {
		visit(m)
		if len(post) >= len(list) {
			break
		}
	}
	slices.Reverse(post)
	post = post[max(0, len(post)-len(list)):]
	if i := slices.Index(post, list[0]); keepFirst && i > 0 {
		post = slices.Insert(slices.Delete(post, i, i+1), 0, list[0])
	}
	return post
}

// sortByMoving is _dl_sort_maps_original (elf/dl-sort-maps.c). It moves an object
// behind the last that depends on it.
func sortByMoving(maps []*Module, work *Work) {
	n := len(maps)
	if n <= 1 {
		return
	}
	seen := make([]int, n)
	for i := 0; i < n; {
		seen[i]++
		this := maps[i]
		k := n - 1
		for k > i && !slices.Contains(maps[k].link.sorted, this) {
			work.spend(cells(len(maps[k].link.sorted)))
			k--
		}
		if !work.spend(cells(n)) {
			return
		}
		if k == i {
			i++
			clear(seen[min(i, n):])
			continue
		}
		copy(maps[i:], maps[i+1:k+1])
		maps[k] = this
		if seen[i+1] > n-i {
			i++
			clear(seen[i:])
			continue
		}
		had := seen[i]
		copy(seen[i:], seen[i+1:k+1])
		seen[k] = had
	}
}
