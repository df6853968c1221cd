package fix

import "github.com/imgcheck/imgcheck/pkg/provide"

// offer says of each step with a stand-in which sources are known to have the library, and
// under which licence it comes.
func (m *maker) offer(steps []Step) {
	for i := range steps {
		s := &steps[i]
		if !s.StandIn {
			continue
		}
		cuda, versions := m.wanted(s)
		s.Offers = provide.Offers(s.Library, cuda, getVar(environment(m.base), "CUDA_VERSION"), versions)
		if l := provide.LicenseOf(s.Library); l != nil {
			s.License, s.LicenseURL = l.Name, l.URL
		}
	}
}
