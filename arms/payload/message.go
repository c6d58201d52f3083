package payload

import echov1 "github.com/rungprof/rung/arms/echo/v1"

// Hello is echov1.Hello as a JSON arm sees it: the types one would write for
// encoding/json, without protobuf's bookkeeping fields, so that the JSON arms
// pay for JSON alone.
type Hello struct {
	Name  string `json:"name"`
	Order *Order `json:"order,omitempty"`
}

type Order struct {
	ID           string            `json:"id"`
	PlacedUnixMs int64             `json:"placedUnixMs"`
	Total        float64           `json:"total"`
	Paid         bool              `json:"paid"`
	Customer     Customer          `json:"customer"`
	Items        []Item            `json:"items"`
	Labels       map[string]string `json:"labels,omitempty"`
}

type Customer struct {
	Name    string  `json:"name"`
	Email   string  `json:"email"`
	Address Address `json:"address"`
}

type Address struct {
	Street  string `json:"street"`
	City    string `json:"city"`
	Country string `json:"country"`
}

type Item struct {
	SKU      string   `json:"sku"`
	Title    string   `json:"title"`
	Quantity int32    `json:"quantity"`
	Price    float64  `json:"price"`
	Tags     []string `json:"tags,omitempty"`
}

// Proto is the same content as a protobuf message that shares no memory with h
// but the strings.
func (h *Hello) Proto() *echov1.Hello {
	out := &echov1.Hello{Name: h.Name}
	if h.Order == nil {
		return out
	}
	o := h.Order
	out.Order = &echov1.Order{
		Id:           o.ID,
		PlacedUnixMs: o.PlacedUnixMs,
		Total:        o.Total,
		Paid:         o.Paid,
		Customer: &echov1.Customer{
			Name:  o.Customer.Name,
			Email: o.Customer.Email,
			Address: &echov1.Address{
				Street:  o.Customer.Address.Street,
				City:    o.Customer.Address.City,
				Country: o.Customer.Address.Country,
			},
		},
		Labels: make(map[string]string, len(o.Labels)),
	}
	for k, v := range o.Labels {
		out.Order.Labels[k] = v
	}
	for _, item := range o.Items {
		out.Order.Items = append(out.Order.Items, &echov1.Item{
			Sku:      item.SKU,
			Title:    item.Title,
			Quantity: item.Quantity,
			Price:    item.Price,
			Tags:     append([]string(nil), item.Tags...),
		})
	}
	return out
}
