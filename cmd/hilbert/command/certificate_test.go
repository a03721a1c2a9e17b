package command

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// TestCertificate: what the APIService trusts is what hilbertd serves with, under its Service's name, and can also say who it is.
func TestCertificate(t *testing.T) {
	out, err := run(t.Context(), t, "certificate", "--namespace", "own", "--service", "sched")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(out, "---\n")
	if len(documents) != 3 {
		t.Fatalf("%d documents:\n%s", len(documents)-1, out)
	}
	var secret struct {
		Kind, Type string
		Metadata   struct{ Namespace, Name string }
		Data       map[string]string
	}
	var route struct {
		Kind string
		Spec struct {
			CABundle              string `json:"caBundle"`
			InsecureSkipTLSVerify bool   `json:"insecureSkipTLSVerify"`
			Service               struct{ Namespace, Name string }
		}
	}
	if err := yaml.Unmarshal([]byte(documents[1]), &secret); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(documents[2]), &route); err != nil {
		t.Fatal(err)
	}
	decode := func(text string) []byte {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	pair, err := tls.X509KeyPair(decode(secret.Data["tls.crt"]), decode(secret.Data["tls.key"]))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(decode(route.Spec.CABundle)) {
		t.Fatal("the caBundle has no certificate")
	}
	for _, c := range []struct {
		name string
		at   time.Time
		good bool
	}{
		{"sched.own.svc", time.Now(), true},
		{"sched.other.svc", time.Now(), false},
		{"sched.own.svc", time.Now().Add(certificateLife + time.Hour), false},
	} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: c.name, CurrentTime: c.at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if (err == nil) != c.good {
			t.Errorf("%s at %s: %v", c.name, c.at, err)
		}
	}
	if secret.Kind != "Secret" || secret.Type != "kubernetes.io/tls" || secret.Metadata.Namespace != "own" || secret.Metadata.Name != "hilbertd-serving" ||
		route.Kind != "APIService" || route.Spec.InsecureSkipTLSVerify || route.Spec.Service.Namespace != "own" || route.Spec.Service.Name != "sched" {
		t.Errorf("%s", out)
	}
	for _, args := range [][]string{{"--valid-for", "1s"}, {"--valid-for", "900000h"}, {"--namespace", "a/b"}, {"--secret", ""}} {
		if _, err := run(t.Context(), t, append([]string{"certificate"}, args...)...); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

// TestCertificateRotate: of the Secret that each step prints the next one is made, the APIService always trusts what the Secret has, and no key that is used no more is left.
func TestCertificateRotate(t *testing.T) {
	out, err := run(t.Context(), t, "certificate")
	if err != nil {
		t.Fatal(err)
	}
	fields := func(out string) (data map[string]string, bundle string) {
		documents := strings.Split(out, "---\n")
		var secret struct{ Data map[string]string }
		var route struct {
			Spec struct {
				CABundle string `json:"caBundle"`
			}
		}
		if len(documents) != 3 || yaml.Unmarshal([]byte(documents[1]), &secret) != nil || yaml.Unmarshal([]byte(documents[2]), &route) != nil {
			t.Fatalf("%s", out)
		}
		return secret.Data, route.Spec.CABundle
	}
	first, _ := fields(out)
	for step := 1; step <= 3; step++ {
		var printed, told strings.Builder
		root := New()
		root.SetArgs([]string{"certificate", "rotate"})
		root.SetIn(strings.NewReader(strings.Split(out, "---\n")[1]))
		root.SetOut(&printed)
		root.SetErr(&told)
		if err := root.ExecuteContext(t.Context()); err != nil || !strings.HasPrefix(told.String(), fmt.Sprintf("step %d of 3: ", step)) {
			t.Fatalf("step %d: %v, %s", step, err, told.String())
		}
		out = printed.String()
		data, bundle := fields(out)
		if bundle != data["tls.crt"] || (data["next.key"] != "") != (step == 1) || (data["tls.key"] == first["tls.key"]) != (step == 1) {
			t.Errorf("step %d: %s", step, out)
		}
	}
	for what, in := range map[string]string{"nothing": "", "no Secret": "kind: Pod", "an empty Secret": "kind: Secret", "no YAML": ":::"} {
		root := New()
		root.SetArgs([]string{"certificate", "rotate"})
		root.SetIn(strings.NewReader(in))
		var all strings.Builder
		root.SetOut(&all)
		root.SetErr(&all)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate rotate: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCertificateForMetrics: both metrics APIs trust the certificate that the role metrics serves with.
func TestCertificateForMetrics(t *testing.T) {
	out, err := run(t.Context(), t, "certificate", "--for", "metrics")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(out, "---\n")
	if len(documents) != 4 || !strings.Contains(documents[1], "name: hilbert-metrics-serving") {
		t.Fatalf("%d documents:\n%s", len(documents)-1, out)
	}
	_, certificate, _ := strings.Cut(documents[1], "tls.crt: ")
	certificate, _, _ = strings.Cut(certificate, "\n")
	for i, group := range []string{"external.metrics.k8s.io", "custom.metrics.k8s.io"} {
		if d := documents[2+i]; !strings.Contains(d, "group: "+group) || !strings.Contains(d, "name: hilbert-metrics\n") || !strings.Contains(d, "caBundle: "+certificate) {
			t.Errorf("%s:\n%s", group, d)
		}
	}
	if _, err := run(t.Context(), t, "certificate", "--for", "others"); err == nil {
		t.Error("--for others is taken")
	}
}
