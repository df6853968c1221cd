package startup

import "testing"

func TestWants(t *testing.T) {
	for name, want := range map[string]bool{
		"entrypoint.sh": true, "usr/local/bin/docker-entrypoint.sh": true, "usr/local/bin/gunicorn": true,
		"opt/venv/bin/activate": true, "etc/passwd": true, "app/Procfile": true, "app/package.json": true,
		"app/node_modules/x/package.json": false, "app/start_server": true, "etc/supervisor/conf.d/app.conf": true,
		"etc/supervisord.conf": true, "etc/services.d/app/run": true, "etc/s6-overlay/s6-rc.d/app/type": true,
		"opt/nvidia/entrypoint.d/10-banner.sh": true, "opt/nvidia/entrypoint.d/10-banner.txt": true, "init": true,
		"usr/share/doc/x/README": false, "usr/lib/python3/dist-packages/x/__init__.py": false, "usr/include/initialize.h": false,
		"usr/share/perl/5.36/strict.pm": false, "models/a/config.pbtxt": true, "app/model-settings.json": true, "app/uwsgi.ini": true, "app/data.ini": false, "src/cog.yaml": true,
	} {
		if got := Wants(name, 100); got != want {
			t.Errorf("Wants(%q) = %v", name, got)
		}
	}
	if Wants("entrypoint.sh", maxScript+1) {
		t.Error("a script above the limit is wanted")
	}
}
