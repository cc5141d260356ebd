package servingcert

import (
	"crypto/x509"
	"testing"
	"time"
)

var testNames = []string{"api.scanner-system.svc", "localhost", "127.0.0.1"}

// verify verifies the certificate of a state as a client does that was given some CAs.
func verify(s state, authorities string, now time.Time, name string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(authorities))
	_, err := s.certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: name})
	return err
}

// TestClientsVerifyThroughRotations lives through four years. A client that was given the CAs at any time verifies the certificate for
// another day, the longest that a scan may take, whatever was renewed since.
func TestClientsVerifyThroughRotations(t *testing.T) {
	const step, job = 12 * time.Hour, 24 * time.Hour
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var s state
	var given []string
	issuers, certificates, changes := map[string]bool{}, map[string]bool{}, 0
	for now := start; now.Before(start.AddDate(4, 0, 0)); now = now.Add(step) {
		next, changed, err := s.renewed(now, testNames)
		if err != nil {
			t.Fatal(err)
		}
		if changed {
			changes++
			data, err := next.encode()
			if err != nil {
				t.Fatal(err)
			}
			if next, err = decode(data); err != nil {
				t.Fatal(err)
			}
		}
		s = next
		issuers[s.certificate.Leaf.Issuer.CommonName], certificates[s.certificate.Leaf.SerialNumber.String()] = true, true
		given = append(given, s.material().authorities)
		for _, authorities := range given[max(0, len(given)-1-int(job/step)):] {
			if err := verify(s, authorities, now, testNames[0]); err != nil {
				t.Fatalf("at %s: %v", now, err)
			}
		}
		if len(s.authorities) > 2 {
			t.Fatalf("at %s there are %d CAs", now, len(s.authorities))
		}
	}
	if len(issuers) < 5 || len(certificates) < 4*6 {
		t.Errorf("%d CAs issued %d certificates", len(issuers), len(certificates))
	}
	if most := 3*len(issuers) + len(certificates); changes > most {
		t.Errorf("%d changes, more than %d", changes, most)
	}
}

func TestRenewed(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	first, changed, err := state{}.renewed(now, testNames)
	if err != nil || !changed {
		t.Fatalf("changed %t, %v", changed, err)
	}
	for name, test := range map[string]struct {
		now     time.Time
		names   []string
		changed bool
	}{
		"nothing to do":          {now.Add(time.Hour), testNames, false},
		"fewer names":            {now, testNames[:1], false},
		"another name":           {now, []string{"scanner.example.com"}, true},
		"another address":        {now, []string{"192.0.2.1"}, true},
		"before the end":         {now.Add(certificateLifetime - certificateRenewal + time.Minute), testNames, true},
		"down for a long time":   {now.Add(2 * authorityLifetime), testNames, true},
		"the clock was ahead":    {now.Add(-2 * backdating), testNames, true},
		"the CA is to be new":    {now.Add(authorityLifetime - authorityRenewal + time.Minute), testNames, true},
		"the clock is a bit off": {now.Add(-backdating / 2), testNames, false},
	} {
		t.Run(name, func(t *testing.T) {
			next, changed, err := first.renewed(test.now, test.names)
			if err != nil || changed != test.changed {
				t.Fatalf("changed %t, %v", changed, err)
			}
			for _, host := range test.names {
				if err := verify(next, next.material().authorities, test.now, host); err != nil {
					t.Error(err)
				}
			}
			if again, changed, err := next.renewed(test.now, test.names); err != nil || changed || again.certificate != next.certificate {
				t.Errorf("the second time: changed %t, %v", changed, err)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	now := time.Now()
	first, _, err := state{}.renewed(now, testNames)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := state{}.renewed(now, testNames)
	if err != nil {
		t.Fatal(err)
	}
	good, err := first.encode()
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string][]byte){
		"no CA":          func(data map[string][]byte) { delete(data, keyAuthorities) },
		"no key":         func(data map[string][]byte) { delete(data, keyAuthorityKeys) },
		"foreign CA key": func(data map[string][]byte) { data[keyAuthorityKeys] = foreign[keyAuthorityKeys] },
		"foreign key":    func(data map[string][]byte) { data[keyPrivate] = foreign[keyPrivate] },
		"garbage":        func(data map[string][]byte) { data[keyCertificate] = []byte("garbage") },
		"many CAs": func(data map[string][]byte) {
			for range maxStored {
				data[keyAuthorities] = append(data[keyAuthorities], good[keyAuthorities]...)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for key, value := range good {
				data[key] = append([]byte(nil), value...)
			}
			change(data)
			if _, err := decode(data); err == nil {
				t.Error("accepted")
			}
		})
	}
	if s, err := decode(nil); err != nil || s.certificate != nil {
		t.Errorf("without data: %+v, %v", s, err)
	}
}
