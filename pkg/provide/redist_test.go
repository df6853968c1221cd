package provide

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cudnnArchive returns an archive as NVIDIA makes them: files named for the release,
// links, stubs, static libraries, the licence at the top.
func cudnnArchive(t *testing.T, machine, version string) []byte {
	t.Helper()
	v := strings.Split(version, ".")
	short, major := strings.Join(v[:3], "."), v[0]
	dir := "cudnn-linux-" + version + "-archive/"
	parts := []part{{name: dir + "LICENSE", data: "licence of " + version}, {name: dir + "include/LICENSE", data: "another"}}
	for _, name := range []string{"libcudnn", "libcudnn_ops"} {
		so := name + ".so"
		parts = append(parts,
			part{name: dir + "lib/" + so, link: so + "." + major},
			part{name: dir + "lib/" + so + "." + major, link: so + "." + short},
			part{name: dir + "lib/" + so + "." + short, data: string(lib(t, machine+" soname="+so+"."+major+"\nrodata \""+version+"\""))},
			part{name: dir + "lib/" + name + "_static.a", data: "!<arch>\n"},
		)
	}
	parts = append(parts,
		part{name: dir + "lib/libcudnn_graph.so." + short, link: "hard:" + dir + "lib/libcudnn_ops.so." + short},
		part{name: dir + "lib/stubs/libcudnn.so", data: string(lib(t, machine+" soname=libcudnn.so."+major))},
	)
	return tarred(t, parts...)
}

// product serves the archives of a release, and gives its JSON.
func (w *web) product(t *testing.T, dir, label, component, version string, archives map[string][]byte) {
	t.Helper()
	c := map[string]any{"name": component, "license": "NVIDIA", "version": version}
	for _, name := range sorted(archives) {
		platform, variant, _ := strings.Cut(name, "/")
		b := archives[name]
		p := fmt.Sprintf("%s/%s/%s-%s-%s_%s-archive.tar.xz", component, platform, component, platform, version, variant)
		w.files[dir+p] = b
		a := map[string]any{"relative_path": p, "sha256": sum(b), "md5": "", "size": fmt.Sprint(len(b))}
		if variant == "" {
			c[platform] = a
			continue
		}
		if c[platform] == nil {
			c[platform] = map[string]any{}
		}
		c[platform].(map[string]any)[variant] = a
	}
	doc, err := json.Marshal(map[string]any{"release_date": "2030-01-01", "release_label": label, component: c, "other": map[string]any{"version": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	w.files[dir+"redistrib_"+label+".json"] = doc
}

func mirror(t *testing.T) *web {
	w := serve(t)
	dir := "/compute/cudnn/redist/"
	w.product(t, dir, "90.1.0", "cudnn", "90.1.0.70", map[string][]byte{
		"linux-x86_64/cuda11": packed(t, ".xz", cudnnArchive(t, "x86_64", "90.1.0.11")),
		"linux-x86_64/cuda12": packed(t, ".xz", cudnnArchive(t, "x86_64", "90.1.0.12")),
		"linux-sbsa/cuda12":   packed(t, ".xz", cudnnArchive(t, "aarch64", "90.1.0.12")),
	})
	w.product(t, dir, "90.10.2", "cudnn", "90.10.2.21", map[string][]byte{"linux-x86_64/cuda12": packed(t, ".xz", cudnnArchive(t, "x86_64", "90.10.2.21"))})
	w.product(t, dir, "89.0.0", "cudnn", "89.0.0.1", map[string][]byte{"linux-x86_64/": packed(t, ".xz", cudnnArchive(t, "x86_64", "89.0.0.1"))})
	w.handlers[dir] = func(rw http.ResponseWriter, r *http.Request) {
		for _, label := range []string{"90.1.0", "90.10.2", "89.0.0"} {
			fmt.Fprintf(rw, "<a href='redistrib_%s.json'>redistrib_%s.json</a>\n<a href='../'>up</a><a href='cudnn/'>cudnn/</a>", label, label)
		}
	}
	return w
}

func TestRedistTakesTheNewestThatFits(t *testing.T) {
	w := mirror(t)
	tests := map[string]struct {
		from string
		want Want
		got  string
	}{
		"newest":           {"", Want{CUDA: "12"}, "90.10.2.21"},
		"pinned":           {"", Want{CUDA: "12", Pin: "90.1.0.70"}, "90.1.0.70"},
		"CUDA 11":          {"", Want{CUDA: "11"}, "90.1.0.70"},
		"arm64":            {"", Want{CUDA: "12", Arch: "arm64"}, "90.1.0.70"},
		"below a bound":    {"", Want{CUDA: "12", Versions: []string{"<90"}}, "89.0.0.1"},
		"any CUDA":         {"", Want{Versions: []string{"<90"}}, "89.0.0.1"},
		"one JSON":         {"redistrib_90.1.0.json", Want{CUDA: "12"}, "90.1.0.70"},
		"no CUDA 13":       {"redistrib_90.1.0.json", Want{CUDA: "13"}, "redistrib_90.1.0.json has cudnn 90.1.0.70, but not for amd64 and CUDA 13"},
		"which CUDA":       {"redistrib_90.1.0.json", Want{}, "not for amd64 and one CUDA: which one is not known"},
		"other component":  {"redistrib_90.1.0.json", Want{Library: "cublas"}, "redistrib_90.1.0.json has no libcublas"},
		"no such release":  {"", Want{CUDA: "12", Pin: "90.7.0.1"}, "has no release of cudnn that fits"},
		"no such JSON":     {"redistrib_1.json", Want{CUDA: "12"}, "has no redistrib_1.json"},
		"another's SONAME": {"", Want{CUDA: "12", Names: []string{"libcudnn.so.9"}}, "redistrib_89.0.0.json has cudnn 89.0.0.1, which does not fit"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := open(t, "redist:"+w.URL+"/compute/{product}/redist/"+tt.from)
			if tt.want.Library == "" {
				tt.want.Library = "cudnn"
			}
			if strings.HasSuffix(tt.from, ".json") {
				s = open(t, "redist:"+w.URL+"/compute/cudnn/redist/"+tt.from)
			}
			f, err := s.Find(t.Context(), tt.want)
			if err != nil {
				if !strings.HasSuffix(err.Error(), tt.got) {
					t.Errorf("got  %v\nwant %s", err, tt.got)
				}
				return
			}
			if f.Version != tt.got || !strings.HasPrefix(f.License.Text, "licence of ") {
				t.Errorf("got %s %q, want %s", f.Version, f.License.Text, tt.got)
			}
			v := strings.Split(f.Version, ".")
			major, short := v[0], strings.Join(v[:3], ".")
			want := []string{
				"libcudnn.so." + short + " libcudnn.so libcudnn.so." + major,
				"libcudnn_graph.so." + short,
				"libcudnn_ops.so." + short + " libcudnn_ops.so libcudnn_ops.so." + major,
			}
			if diff := cmp.Diff(want, shape(f)); diff != "" {
				t.Error(diff)
			}
			if tt.want.Arch == "arm64" && !strings.Contains(read(t, &f.Files[0]), "90.1.0.12") {
				t.Error("it is another machine's")
			}
		})
	}
}

// A redistrib_*.json whose hash is known has to have it, wherever it is from;
// where nothing is listed, those that are known are tried.
func TestRedistKnowsHashes(t *testing.T) {
	w := serve(t)
	w.files["/redist/redistrib_9.1.1.json"] = []byte("{}")
	_, err := open(t, "redist:"+w.URL+"/redist/").Find(t.Context(), Want{Library: "cudnn", CUDA: "12", Pin: "9.1.1.17"})
	if err == nil || !strings.Contains(err.Error(), "redistrib_9.1.1.json: it has the sha256 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a, and should have d22d5694") {
		t.Errorf("got %v", err)
	}
	_, err = open(t, "redist:"+w.URL+"/redist/").Find(t.Context(), Want{Library: "cudnn", CUDA: "12", Pin: "9.2.0.82"})
	if err == nil || !strings.Contains(err.Error(), "has no redistrib_9.2.0.json") {
		t.Errorf("got %v", err)
	}
}

func TestRedistRefusesWhatIsNotNVIDIAs(t *testing.T) {
	hash := strings.Repeat("a", 64)
	for name, tt := range map[string]struct{ json, err string }{
		"no JSON":  {`<html>`, "reading JSON"},
		"a list":   {`[]`, "reading JSON"},
		"up":       {`{"cudnn":{"version":"9","linux-x86_64":{"relative_path":"../x","sha256":"` + hash + `"}}}`, `the path "../x" leads elsewhere`},
		"absolute": {`{"cudnn":{"version":"9","linux-x86_64":{"cuda12":{"relative_path":"/x","sha256":"` + hash + `"}}}}`, `the path "/x" leads elsewhere`},
		"a query":  {`{"cudnn":{"version":"9","linux-x86_64":{"relative_path":"x?y","sha256":"` + hash + `"}}}`, `leads elsewhere`},
	} {
		_, err := parseRedist([]byte(tt.json))
		if err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %v, want %s", name, err, tt.err)
		}
	}
}

// An archive without a hash is not fetched; that says nothing of the others.
func TestRedistWithoutAHash(t *testing.T) {
	w := serve(t)
	w.files["/redistrib_90.1.json"] = []byte(`{"cudnn":{"version":"90.1.0.1","linux-x86_64":{"relative_path":"x.tar.xz","md5":"1"}},"libcublas":{"version":"x"}}`)
	_, err := open(t, "redist:"+w.URL+"/redistrib_90.1.json").Find(t.Context(), Want{Library: "cudnn", CUDA: "12"})
	if err == nil || !strings.Contains(err.Error(), "gives no sha256") || w.times("/x.tar.xz") != 0 {
		t.Errorf("got %v", err)
	}
}
