package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

// requiring plans fixes, and the variables of --require for the image with them. Where no fix
// helps, or none is needed, it sets the variables alone.
func (p *patching) requiring(ctx context.Context, j *scan.JudgedBase, sources *provide.Sources) (*work, error) {
	w, err := p.fixing(ctx, j, sources)
	var refused errRefused
	switch {
	case errors.As(err, &refused) && refused.hopeless:
		p.say(oneLine(refused.why))
	case err != nil:
		return nil, err
	}
	if w == nil {
		w = &work{JudgedBase: j}
	}
	change := patch.Change{}
	if !p.dry {
		if change, err = w.change(); err != nil {
			return nil, err
		}
	}
	vars, err := j.Require(ctx, change)
	if err != nil {
		return nil, refuse("--require: %v", err)
	}
	for _, v := range vars {
		w.required = append(w.required, patch.EnvEdit{Name: v.Name, Value: v.Value})
		p.say(oneLine(fmt.Sprintf("NVIDIA's container runtime will ask for %s=%s", v.Name, v.Value)))
	}
	return w, nil
}

// change returns the plan's change, empty without a plan.
func (w *work) change() (patch.Change, error) {
	if w.plan == nil {
		return patch.Change{CreatedBy: "imgcheck patch", Comment: "requirements for NVIDIA's container runtime"}, nil
	}
	change, err := w.plan.Change()
	change.CreatedBy = "imgcheck patch"
	change.Comment = strings.Join(w.plan.Published(), "; ")
	return change, err
}
