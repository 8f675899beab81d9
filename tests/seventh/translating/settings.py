"""The settings of translations: `settings.of(TranslationSettings)` returns them."""

from interlock.system.settings import SystemSettings


class TranslationSettings(SystemSettings):
    translation_languages: tuple[str, ...] = ()  # empty: any language may be asked for
