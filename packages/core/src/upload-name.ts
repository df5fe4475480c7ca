/** What a file that somebody brings along is called in a workspace: a plain name that no program takes for an option, a hidden file, a
 *  folder or several words, and that shows what it is. */
export function uploadName(given: string): string {
  const last = given.split(/[/\\]/).at(-1) ?? ''
  const plain = last
    .normalize('NFC')
    .replace(/[^\p{L}\p{N}._-]+/gu, '-')
    .replace(/^[.-]+|[.-]+$/g, '')
  if (plain === '') return 'file'
  const ending = /\.[\p{L}\p{N}]{1,10}$/u.exec(plain)?.[0] ?? ''
  return `${plain.slice(0, plain.length - ending.length).slice(0, charsMax - ending.length)}${ending}`
}

const charsMax = 80
