"""An extension of AgentCompass as a third party writes it; its code is shown in ``docs/extending/``."""
