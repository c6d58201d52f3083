package payload

import "fmt"

// Of is a tier's content, built anew for each call. It panics on a tier that
// ParseTier would refuse.
func Of(t Tier) *Hello {
	switch t {
	case Tiny:
		return &Hello{Name: "World"}
	case Realistic:
		return realistic()
	}
	panic(fmt.Sprintf("unknown body tier %q", t))
}

// realistic is an order with four lines. The two sizes were met by its shape
// (a field costs JSON its name, protobuf one byte of tag) and then by the
// length of the titles, which count the same in both encodings. There is no
// character in it that encoding/json would escape.
func realistic() *Hello {
	return &Hello{
		Name: "World",
		Order: &Order{
			ID:           "ord-2026-0906-7f3a9c51-4e80-4b1d-9d5e-2f6c8a017b3e",
			PlacedUnixMs: 1788739200123,
			Total:        1284.45,
			Paid:         true,
			Customer: Customer{
				Name:  "Margarethe von Tannenberg, purchasing department",
				Email: "margarethe.von.tannenberg@mail.example.org",
				Address: Address{
					Street:  "Untere Hafenpromenade 118, Hinterhaus, 3. Obergeschoss links",
					City:    "Friedrichshafen am Bodensee, Baden-Wuerttemberg",
					Country: "DE",
				},
			},
			Items: []Item{
				{"KBD-104-DE-BLK", "Mechanical keyboard, German layout, brown switches, aluminium case, hot-swappable sockets, detachable braided cable", 12, 64.95, []string{"input", "usb"}},
				{"MON-27-4K-IPS", "Monitor 27 inch, 3840 by 2160, IPS panel, factory calibrated, height adjustable stand, arm mount and power cable included", 1, 389.5, nil},
				{"DOCK-TB4-96W", "Docking station with Thunderbolt 4, two display outputs, 2.5 gigabit network port, card reader, clamp for the desk", 1, 115.25, nil},
				{"CBL-USBC-240W-2M", "Charging cable, USB-C to USB-C, rated for 240 watts each, woven sleeve, angled plug on one side, packs of three", 2, 12.5, nil},
			},
			Labels: map[string]string{"channel": "partner-portal", "delivery": "Tuesday between 8 and 12, ring twice, leave it with the caretaker if nobody opens the door"},
		},
	}
}
