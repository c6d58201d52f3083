package org.rungprof.arm;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.util.List;
import java.util.Map;

/** The body as JSON: the message of echo.proto, in the types one would write. */
@JsonInclude(JsonInclude.Include.NON_EMPTY)
record Hello(String name, Order order) {
    @JsonInclude(JsonInclude.Include.NON_EMPTY)
    record Order(@JsonInclude String id, @JsonInclude long placedUnixMs, @JsonInclude double total, @JsonInclude boolean paid,
            @JsonInclude Customer customer, @JsonInclude List<Item> items, Map<String, String> labels) {}

    record Customer(String name, String email, Address address) {}

    record Address(String street, String city, String country) {}

    @JsonInclude(JsonInclude.Include.NON_EMPTY)
    record Item(@JsonInclude String sku, @JsonInclude String title, @JsonInclude int quantity, @JsonInclude double price, List<String> tags) {}
}
