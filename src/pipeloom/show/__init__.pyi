from . import headers as headers
from . import overlay_page as overlay_page
from . import overlay_text as overlay_text
