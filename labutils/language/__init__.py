"""Messages in another language: finished English text is matched with the templates that it was made from, where it is
shown. English text is shown as it is, and costs nothing."""
