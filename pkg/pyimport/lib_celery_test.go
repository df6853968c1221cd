package pyimport

import (
	"slices"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestFindCelery checks which application a name leads to, as find_app of celery/app/utils.py does.
func TestFindCelery(t *testing.T) {
	a := txtar.Parse([]byte(`
-- celery/__init__.py --
from celery.app.base import Celery
-- celery/app/__init__.py --
-- celery/app/base.py --
class Celery: pass
-- proj/__init__.py --
-- proj/celery.py --
from celery import Celery
app = Celery(include=["tasks"])
other = Celery()
-- single.py --
from celery import Celery
queue = Celery(include=["tasks"])
-- bound/__init__.py --
from .celery import app as celery
-- bound/celery.py --
from celery import Celery
app = Celery(include=["tasks"])
-- none.py --
-- tasks.py --
-- whole --
`))
	for _, tt := range []struct {
		name   string
		worker bool
		loads  string
		tasks  bool
	}{
		{"proj", true, "proj.celery", true},
		{"proj", false, "proj.celery", false},
		{"proj.celery", true, "proj.celery", true},
		{"proj.celery.app", true, "proj.celery", true},
		{"proj.celery:app", true, "proj.celery", true},
		{"proj.celery:other", true, "proj.celery", false},
		{"proj.celery.other", true, "proj.celery", false},
		{"single", true, "single", true},
		{"single:queue", true, "single", true},
		{"bound", true, "bound.celery", true},
		{"none", true, "none", false},
	} {
		r := testRun(t, a)
		n := r.Celery(tt.name, tt.worker)
		loaded := r.Loaded()
		if n.Failed != nil || !slices.Contains(loaded, tt.loads) || slices.Contains(loaded, "tasks") != tt.tasks {
			t.Errorf("%s, worker %t: loads %q, fails %+v", tt.name, tt.worker, loaded, n.Failed)
		}
	}
	for _, name := range []string{"gone", "proj.gone", "proj.celery.gone.app"} {
		if n := testRun(t, a).Celery(name, true); n.Failed == nil || n.Failed.Doubt != "" {
			t.Errorf("%s fails with %+v", name, n.Failed)
		}
	}
}
