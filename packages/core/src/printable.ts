/** Makes text from a cell, a repository or a web page safe to show: what would move the cursor, hide text or turn
 *  its direction becomes visible instead, and so does what every screen draws in its own way or over its neighbours. Line feeds and
 *  tabs stay. */
export function printable(text: string): string {
  return text
    .replace(unprintable, visible)
    .replace(markPile, (marks, kept: string) => kept + visibleAll(marks.slice(kept.length)))
}

/** The same where it matters which space it is: to a shell or a path it makes a difference. */
export const printableExactly = (text: string): string => printable(text).replace(otherSpaces, visible)

/** The same for one line, in which what looks like a space is one. */
export const printableLine = (text: string): string => onOneLine(printableExactly(text))

/** The same for the words of an action, which somebody is to decide upon: a letter or a sign that can pass for one of ASCII's is told by its
 *  number, because to a shell, a path or a host it is another one. Text in another language stays, but for words of it that could pass for
 *  ASCII as a whole. */
export function printableAction(text: string): string {
  return printableExactly(text.replace(pictures, visible))
    .replace(looseMarks, visibleAll)
    .replace(otherSigns, visibleAll)
    .replace(wholeWords, visibleWord)
}

/** The words of an action on one line. */
export const printableActionLine = (text: string): string => onOneLine(printableAction(text))

const onOneLine = (text: string): string => text.replaceAll('\n', '␊').replaceAll('\t', ' ')

// Controls but \t and \n; whatever formats, or is not shown where it is not known; line and paragraph separators; lone surrogates; what has
// no meaning but by private agreement, or none yet. The variation selector of emoji stays behind one.
const unprintable =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]|(?!\ufe0f)\p{Default_Ignorable_Code_Point}|(?<!\p{Extended_Pictographic})\ufe0f|[\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]/gu
// The last is a pattern of Braille without a dot.
const otherSpaces = /(?! )[\p{Zs}\u2800]/gu
/** More marks on one letter than any language puts there. */
const markPile = /(\p{M}{4})\p{M}+/gu

/** What stands here for a control must not be taken for one. */
const pictures = /[\u2400-\u2426]/gu
/** Marks on what is no letter: they change how a sign of the shell looks. */
const looseMarks = /(?<![\p{L}\p{M}\p{N}\p{Extended_Pictographic}])\p{M}+/gu
/** Signs that pass for those of ASCII, and dashes where an option would begin. */
const otherSigns =
  /[\u01c0\u01c3\u02c8\u037e\u05c3\u2024\u2044\u2215\u2216\u2217\u2223\u2236\u223c\u29f5\u29f8\u29f9\ua4f8\ua789\ua78c\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff5e\ufe50-\ufe6b]|(?<![^\s'"=])[\u2010-\u2015\u2212]+(?=[\w\u2010-\u2015\u2212-])/gu

const wholeWords = /[\p{L}\p{M}\p{N}_]+/gu
/** Letters of Latin, Cyrillic, Greek and Armenian that look like those of ASCII. */
const lookAlikes = 'ıɑɡɩʀʟɴᴄᴏᴠᴡᴢꜱасԁеһіјӏоԛрѕԝхуѵүАВСԌЕНІЈКӀМОРԚЅТԜХҮѴανικορυχγϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϺօոսհցՕՏՍ'
const passesForAscii = new Set(lookAlikes)
/** Alphabets of which no word has a letter of ASCII beside its own. */
const otherAlphabets =
  /[\p{Script=Cyrillic}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}\p{Script=Lisu}\p{Script=Deseret}]/u
/** Raised and lowered letters and digits pass for nothing. */
const raised = /[ª²³¹º\u02b0-\u02b8\u1d2c-\u1d6a\u2070-\u209f]/u

function visibleWord(word: string): string {
  if (/^\w*$/.test(word)) return word
  const letters = Array.from(word)
  const isForm = (one: string) => one > '\u007f' && !raised.test(one) && /^[!-~]{1,3}$/.test(one.normalize('NFKC'))
  const passes = (one: string) => passesForAscii.has(one)
  const hasAscii = letters.some((one) => /[A-Za-z]/.test(one))
  const isWholly = letters.every((one) => passes(one) || /^[\w\p{M}]$/u.test(one))
  return letters
    .map((one) =>
      isForm(one) || (isWholly && passes(one)) || (hasAscii && (passes(one) || otherAlphabets.test(one))) ? visible(one) : one,
    )
    .join('')
}

const visibleAll = (characters: string): string => Array.from(characters).map(visible).join('')

function visible(character: string): string {
  const code = character.codePointAt(0) ?? 0
  // The control pictures block shows C0 as one cell each; all else is named by its number.
  if (code < 0x20) return String.fromCodePoint(0x2400 + code)
  if (code === 0x7f) return '␡'
  return `\\u{${code.toString(16)}}`
}
