package vex

import (
	"fmt"
	"slices"
	"strings"
)

// maxGroupsOfProduct bounds the groups that a product is in, since each is looked up for each vulnerability.
const maxGroupsOfProduct = 100

// productTree is what the product tree of a CSAF document says of its products, by product ID.
type productTree struct {
	products map[string]Product
	// groups numbers the product groups, groupsOf has those of a product by the ID of the group.
	groups   map[string]int
	groupsOf map[string][]int
}

func newProductTree(in *csafProductTree) (*productTree, error) {
	t := &productTree{products: map[string]Product{}, groups: map[string]int{}, groupsOf: map[string][]int{}}
	for i := range in.FullProductNames {
		if err := t.define(fmt.Sprintf("product_tree.full_product_names[%d]", i), &in.FullProductNames[i], nil); err != nil {
			return nil, err
		}
	}
	if err := t.branches("product_tree.branches", in.Branches, nil); err != nil {
		return nil, err
	}
	if err := t.relationships(in.Relationships); err != nil {
		return nil, err
	}
	if len(t.products) == 0 {
		return nil, invalidf("the product_tree defines no product")
	}
	return t, t.addGroups(in.ProductGroups)
}

// define adds a product. versions are those of the branch that it is in.
func (t *productTree) define(position string, in *csafProduct, versions *Range) error {
	if err := required(position, "name", in.Name, "product_id", in.ProductID); err != nil {
		return err
	}
	if _, found := t.products[in.ProductID]; found {
		return invalidf("%s: the product %.50q is defined twice", position, in.ProductID)
	}
	component, err := csafComponent(position, in.Helper)
	if versions != nil {
		component.restrict(versions)
	}
	t.products[in.ProductID] = Product{Component: component}
	return err
}

func csafComponent(position string, in *csafHelper) (Component, error) {
	var c Component
	if in == nil {
		return c, nil
	}
	position += ".product_identification_helper"
	if in.PURL != "" {
		if err := c.addPURL(in.PURL); err != nil {
			return c, invalidf("%s.purl: %w", position, err)
		}
	}
	if in.CPE != "" {
		if err := c.addCPE(in.CPE); err != nil {
			return c, invalidf("%s.cpe: %w", position, err)
		}
	}
	for _, file := range in.Hashes {
		for _, hash := range file.FileHashes {
			if strings.EqualFold(hash.Algorithm, "sha256") {
				c.addSHA256(hash.Value)
			}
		}
	}
	return c, nil
}

// branches walks down the tree, whose depth the reader of the document has bounded. versions are those of the branch above.
func (t *productTree) branches(position string, in []csafBranch, versions *Range) error {
	for i := range in {
		b, at := &in[i], fmt.Sprintf("%s[%d]", position, i)
		if err := required(at, "category", b.Category, "name", b.Name); err != nil {
			return err
		}
		if err := oneOf(at, "category", b.Category, csafBranches); err != nil {
			return err
		}
		within := versions
		switch b.Category {
		case "product_version":
			r, err := exactly(b.Name)
			if err != nil {
				return invalidf("%s: %w", at, err)
			}
			within = r
		case "product_version_range":
			r, err := ParseRange(b.Name)
			if err != nil {
				// The standard allows any text here. What cannot be evaluated contains no version.
				r = &Range{}
			}
			within = r
		}
		if b.Product != nil {
			if err := t.define(at+".product", b.Product, within); err != nil {
				return err
			}
		}
		if err := t.branches(at+".branches", b.Branches, within); err != nil {
			return err
		}
	}
	return nil
}

// relationships adds products that are combinations: a product within or together with another one. The first is a subcomponent of the
// second, unless the combination has identifiers of its own. One that is made of another combination matches nothing.
func (t *productTree) relationships(in []csafRelationship) error {
	combined := map[string]*csafRelationship{}
	for i := range in {
		r, at := &in[i], fmt.Sprintf("product_tree.relationships[%d]", i)
		if err := required(at, "category", r.Category, "product_reference", r.Product, "relates_to_product_reference", r.RelatesTo); err != nil {
			return err
		}
		if err := oneOf(at, "category", r.Category, csafRelationships); err != nil {
			return err
		}
		if err := t.define(at+".full_product_name", &r.FullProductName, nil); err != nil {
			return err
		}
		combined[r.FullProductName.ProductID] = r
	}
	for i := range in {
		at := fmt.Sprintf("product_tree.relationships[%d]", i)
		for _, id := range []string{in[i].Product, in[i].RelatesTo} {
			if _, err := t.product(at, id); err != nil {
				return err
			}
		}
	}
	for i := range in {
		r := &in[i]
		product := t.products[r.FullProductName.ProductID]
		if product.Identified() || combined[r.Product] != nil || combined[r.RelatesTo] != nil {
			continue
		}
		t.products[r.FullProductName.ProductID] = Product{
			Component: t.products[r.RelatesTo].Component, Subcomponents: []Component{t.products[r.Product].Component},
		}
	}
	return acyclic(in, combined)
}

// acyclic refuses combinations that are made of themselves.
func acyclic(in []csafRelationship, combined map[string]*csafRelationship) error {
	const visiting, visited = 1, 2
	state := map[string]int{}
	for i := range in {
		stack := []string{in[i].FullProductName.ProductID}
		for len(stack) > 0 {
			id := stack[len(stack)-1]
			r := combined[id]
			if r == nil || state[id] != 0 {
				state[id] = visited
				stack = stack[:len(stack)-1]
				continue
			}
			state[id] = visiting
			for _, next := range []string{r.Product, r.RelatesTo} {
				if state[next] == visiting {
					return invalidf("product_tree.relationships[%d]: the product %.50q is made of itself", i, next)
				}
				if state[next] == 0 {
					stack = append(stack, next)
				}
			}
		}
	}
	return nil
}

func (t *productTree) addGroups(in []csafGroup) error {
	for i, group := range in {
		at := fmt.Sprintf("product_tree.product_groups[%d]", i)
		if err := required(at, "group_id", group.GroupID); err != nil {
			return err
		}
		if _, found := t.groups[group.GroupID]; found {
			return invalidf("%s: the product group %.50q is defined twice", at, group.GroupID)
		}
		t.groups[group.GroupID] = i
		for j, id := range group.ProductIDs {
			if _, err := t.product(fmt.Sprintf("%s.product_ids[%d]", at, j), id); err != nil {
				return err
			}
			if slices.Contains(t.groupsOf[id], i) {
				continue
			}
			if t.groupsOf[id] = append(t.groupsOf[id], i); len(t.groupsOf[id]) > maxGroupsOfProduct {
				return limitf("%s: the product %.50q is in more than %d product groups", at, id, maxGroupsOfProduct)
			}
		}
	}
	for _, groups := range t.groupsOf {
		slices.SortFunc(groups, func(a, b int) int { return strings.Compare(in[a].GroupID, in[b].GroupID) })
	}
	return nil
}

// product returns a product that the document refers to.
func (t *productTree) product(position, id string) (Product, error) {
	product, found := t.products[id]
	if !found {
		return product, invalidf("%s: the product %.50q is not defined in the product_tree", position, id)
	}
	return product, nil
}
