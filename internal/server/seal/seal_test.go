package seal

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func sealer(t *testing.T, key byte) *Sealer {
	t.Helper()
	s, err := New(bytes.Repeat([]byte{key}, KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSeal(t *testing.T) {
	s, other := sealer(t, 1), sealer(t, 2)
	content := []byte("row 4711")
	same, fresh := s.Same("pages", content), s.Fresh("pages", content)
	for _, text := range []string{same, fresh} {
		if opened, ok := s.Open("pages", text); !ok || !bytes.Equal(opened, content) {
			t.Errorf("got %q, %t", opened, ok)
		}
		changed := []byte(text)
		changed[len(changed)/2] ^= 1
		for name, refused := range map[string]func() ([]byte, bool){
			"another purpose": func() ([]byte, bool) { return s.Open("events", text) },
			"another key":     func() ([]byte, bool) { return other.Open("pages", text) },
			"changed":         func() ([]byte, bool) { return s.Open("pages", string(changed)) },
			"cut":             func() ([]byte, bool) { return s.Open("pages", text[:len(text)/2]) },
		} {
			if opened, ok := refused(); ok {
				t.Errorf("%s: opened as %q", name, opened)
			}
		}
	}
	if s.Same("pages", content) != same || s.Fresh("pages", content) == fresh || s.Same("events", content) == same {
		t.Error("Same gives another text for the same content, or Fresh the same")
	}
	if strings.Contains(same, "4711") {
		t.Errorf("%q shows the content", same)
	}
	if _, ok := s.Open("pages", "AA"); ok {
		t.Error("a short text is opened")
	}
	if _, err := New(nil); err == nil {
		t.Error("an empty key is accepted")
	}
}

func TestID(t *testing.T) {
	s := sealer(t, 1)
	random := rand.New(rand.NewPCG(1, 1))
	seen := map[int64]bool{}
	for n := range int64(2000) {
		id := n
		if n >= 1000 {
			id = random.Int64N(MaxID + 1)
		}
		sealed := s.ID("rollouts", id)
		if sealed < 0 || sealed > MaxID || seen[sealed] || s.OpenID("rollouts", sealed) != id {
			t.Fatalf("%d becomes %d, and %d again", id, sealed, s.OpenID("rollouts", sealed))
		}
		seen[sealed] = true
	}
	if a, b := s.ID("rollouts", 1), s.ID("rollouts", 2); b-a == 1 || s.ID("changes", 1) == a {
		t.Error("sealed IDs tell the order, or the same for another purpose")
	}
	for _, id := range []int64{-1, MaxID + 1} {
		if s.ID("rollouts", id) != id {
			t.Errorf("%d is permuted", id)
		}
	}
}
