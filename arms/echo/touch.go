package echo

import (
	"math"

	"github.com/rungprof/rung/arms/payload"

	echov1 "github.com/rungprof/rung/arms/echo/v1"
)

// touchJSON reads every field once, as an application would, and changes none.
// What it answers has no meaning; it is the same for the same content in
// either encoding.
func touchJSON(h *payload.Hello) uint64 {
	sum := text(h.Name)
	o := h.Order
	if o == nil {
		return sum
	}
	sum += text(o.ID) + number(float64(o.PlacedUnixMs)) + number(o.Total) + flag(o.Paid)
	c := &o.Customer
	sum += text(c.Name) + text(c.Email)
	sum += text(c.Address.Street) + text(c.Address.City) + text(c.Address.Country)
	for i := range o.Items {
		item := &o.Items[i]
		sum += text(item.SKU) + text(item.Title) + number(float64(item.Quantity)) + number(item.Price)
		for _, tag := range item.Tags {
			sum += text(tag)
		}
	}
	for k, v := range o.Labels {
		sum += text(k) + text(v)
	}
	return sum
}

func touchProto(h *echov1.Hello) uint64 {
	sum := text(h.GetName())
	o := h.GetOrder()
	if o == nil {
		return sum
	}
	sum += text(o.GetId()) + number(float64(o.GetPlacedUnixMs())) + number(o.GetTotal()) + flag(o.GetPaid())
	c := o.GetCustomer()
	sum += text(c.GetName()) + text(c.GetEmail())
	sum += text(c.GetAddress().GetStreet()) + text(c.GetAddress().GetCity()) + text(c.GetAddress().GetCountry())
	for _, item := range o.GetItems() {
		sum += text(item.GetSku()) + text(item.GetTitle()) + number(float64(item.GetQuantity())) + number(item.GetPrice())
		for _, tag := range item.GetTags() {
			sum += text(tag)
		}
	}
	for k, v := range o.GetLabels() {
		sum += text(k) + text(v)
	}
	return sum
}

// text weighs each byte by its place.
func text(s string) uint64 {
	sum := uint64(len(s))
	for i := range len(s) {
		sum = sum*31 + uint64(s[i])
	}
	return sum
}

func number(f float64) uint64 { return math.Float64bits(f) }

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
