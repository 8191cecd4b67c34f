"""Columns of the tables that learning platforms export and import, in the languages of their users.

Moodle writes and finds the columns of its grading worksheet in the user's language. These are the strings
of Moodle 4.5's language packs: `recordid`, `maxgrade` and `lastmodifiedgrade` of the assignment, `fullname`, `email`,
`gradenoun`, `firstname` and `lastname` of Moodle itself. Canvas's gradebook has English columns everywhere.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class MoodleColumns:
    """Moodle's columns in one language."""

    language: str
    identifier: str
    name: str
    email: str
    grade: str
    maximum: str
    modified: str
    first: str
    last: str


_LANGUAGES = """
en | Identifier | Full name | Email address | Grade | Maximum grade | Last modified (grade) | First name | Last name
ar | المُعرَّف | ًالاسم كاملا | عنوان البريد الإلكتروني | الدرجة | أعلى تقدير | آخر تعديل (التقدير) | الاسم الأول | الاسم الأخير
ca | Identificador | Nom complet | Adreça electrònica | Qualificació | Qualificació màxima | Darrera modificació (qualificació) | Nom | Cognoms
de | ID | Vollständiger Name | E-Mail-Adresse | Bewertung | Bestwertung | Zuletzt geändert (Bewertung) | Vorname | Nachname
es | Identificador | Nombre completo | Dirección de correo | Calificación | Calificación máxima | Última modificación (calificación) | Nombre | Apellido(s)
fr | Identifiant | Nom complet | Adresse de courriel | Note | Note maximale | Dernière modification (note) | Prénom | Nom de famille
it | Identificativo | Nome | Indirizzo email | Valutazione | Valutazione massima | Ultima modifica (valutazione) | Nome | Cognome
ja | ID | フルネーム | メールアドレス | 評点 | 最大評点 | 最終更新日時 (評定) | 名 | 姓
ko | 식별자 | 전체 이름 | 이메일 주소 | 성적 | 최대 성적 | 마지막 수정됨(성적) | 이름 | 성
nl | Identificatie | Volledige naam | E-mailadres | Cijfer | Maximaal cijfer | Laatst gewijzigd (beoordeling) | Voornaam | Achternaam
pt | Identificador | Nome completo | E-mail | Avaliação | Nota máxima | Última atualização (avaliação) | Nome | Apelido
pt_br | Identificador | Nome completo | Endereço de email | Nota | Nota máxima | Última modificação (nota) |  |
ru | Идентификатор | Полное имя | Адрес электронной почты | Оценка | Максимальная оценка | Последнее изменение (оценка) | Имя | Фамилия
sv | Identifierare | Fullständigt namn | E-postadress | Betyg | Maxbetyg | Senast modifierat (betyg) | Förnamn | Efternamn
tr | Tanımlayıcı | Tam adı | E-posta adresi | Not | Enyüksek not | Son düzenleme (not) | Adı | Soyadı
uk | Ідентифікатор | Повна назва | Електронна пошта | Оцінка | Максимальна оцінка | Востаннє змінювалося (оцінка) | Ім'я | Прізвище
zh_cn | 标识符 | 全名 | 电子邮件地址 | 成绩 | 最高分 | 上次修改（评分） | 名 | 姓
"""  # noqa: E501

MOODLE = tuple(MoodleColumns(*map(str.strip, line.split("|"))) for line in _LANGUAGES.strip().split("\n"))

CANVAS_POINTS = "points possible"
"""The name, behind spaces, in the row of Canvas's gradebook that has each column's maximum."""


def read_table(text: str) -> tuple[list[list[str]], str]:
    """The rows of a CSV file, and what separates its columns: the one of ",", ";" and tab that its first line has most
    of. Where a comma is the decimal sign, spreadsheets and Canvas separate by semicolons."""
    first = text.lstrip("\ufeff").split("\n", 1)[0]
    separator = max(",;\t", key=first.count)
    return list(csv.reader(io.StringIO(text.lstrip("\ufeff")), delimiter=separator)), separator


def is_canvas(head: list[str]) -> bool:
    """Whether these are the columns of Canvas's gradebook."""
    return "ID" in head and ("Student" in head or "LastName" in head) and bool({"SIS Login ID", "Section"} & set(head))


def moodle_languages(head: list[str]) -> list[MoodleColumns]:
    """The languages in which these are the columns of Moodle's grading worksheet."""
    return [c for c in MOODLE if c.identifier in head and c.grade in head]


def number(text: str) -> float | None:
    """A number as platforms write it, in any language: 12.5, 12,5, 1.000,00, 1,000.00; None if it is none."""
    text = re.sub(r"[\s\u00a0\u202f']", "", text)
    if not re.fullmatch(r"-?\d[\d.,]*", text):
        return None
    whole, _, decimals = text.replace(",", ".").rpartition(".")
    return float(f"{whole.replace('.', '')}.{decimals}" if whole else decimals)
