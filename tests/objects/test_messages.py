from situate.objects.messages import Request


def test_parameter_is_the_first_of_its_name() -> None:
    request = Request("GET", "/api/v1/pods", query=(("limit", "500"), ("limit", "1")))

    assert request.parameter("limit") == "500"
    assert request.parameter("continue", "none") == "none"
