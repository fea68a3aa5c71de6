// Command types prints, as JSON, how Go's types decode the kinds that the API server publishes: for each struct
// its name, and for each JSON field the Go type in error texts and whether an empty value is left out.
// tests/controlplane/dump_schemas.py runs it and keeps the result beside the published OpenAPI document.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// field is one JSON field: the Go type without pointers, its reflect.Kind, and of "e" (empty values are left
// out), "z" (zero structs are left out) and "p" (a pointer) those that hold. The path names the embedded structs
// that lead to it, each with a dot, as error texts do.
type field struct {
	Go    string `json:"go"`
	Kind  string `json:"kind"`
	Empty string `json:"empty,omitempty"`
	Path  string `json:"path,omitempty"`
}

type structure struct {
	Name   string           `json:"name"`
	Fields map[string]field `json:"fields"`
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

var found = map[string]structure{}

func component(t reflect.Type) string {
	parts := strings.SplitN(t.PkgPath(), "/", 2)
	hosts := strings.Split(parts[0], ".")
	for i, j := 0, len(hosts)-1; i < j; i, j = i+1, j-1 {
		hosts[i], hosts[j] = hosts[j], hosts[i]
	}
	return strings.Join(hosts, ".") + "." + strings.ReplaceAll(parts[1], "/", ".") + "." + t.Name()
}

func visit(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		visit(t.Elem())
		return
	case reflect.Struct:
	default:
		return
	}
	// A type that decodes itself (Quantity, Time, IntOrString, …) is a leaf.
	if !strings.HasPrefix(t.PkgPath(), "k8s.io/") || reflect.PointerTo(t).Implements(unmarshaler) {
		return
	}
	name := component(t)
	if _, seen := found[name]; seen {
		return
	}
	s := structure{Name: t.Name(), Fields: map[string]field{}}
	found[name] = s
	collect(t, "", s.Fields)
}

func collect(t reflect.Type, path string, into map[string]field) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" {
			continue
		}
		if name == "" {
			if f.Anonymous {
				collect(f.Type, path+f.Name+".", into)
			}
			continue
		}
		empty := ""
		if strings.Contains(options, "omitempty") {
			empty += "e"
		}
		if strings.Contains(options, "omitzero") {
			empty += "z"
		}
		kind := f.Type
		for kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
			empty += "p"
		}
		into[name] = field{Go: kind.String(), Kind: kind.Kind().String(), Empty: empty, Path: path}
		visit(f.Type)
	}
}

func main() {
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	for _, t := range scheme.Scheme.AllKnownTypes() {
		visit(t)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
