package packs

// Err returns the first clause or value that was asked for and that the packs or the
// caller lack; nil if there is none.
func (p *Packs) Err() error {
	p.saying.Lock()
	defer p.saying.Unlock()
	return p.said
}
