"""Components whose results are files; an installed package as any third party's."""
