"""Components whose hooks a test can stop and count; an installed package as any third party's."""
