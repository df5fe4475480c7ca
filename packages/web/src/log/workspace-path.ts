import { isPicturePath } from '@anchorhold/core/picture'

/** Where the cell has its workspace. */
const inCell = '/workspace/'

/** The path of a picture in the workspace that an agent named: relative, as the cell sees it, or as the host does. Null for whatever
 *  leads elsewhere: another site, this page's own addresses, a folder above. */
export function pictureInWorkspace(named: string, folder: string): string | null {
  const root = [inCell, `${folder.replace(/\/+$/, '')}/`].find((one) => one !== '/' && named.startsWith(one))
  const path = (root === undefined ? named : named.slice(root.length)).replace(/^(?:\.\/)+/, '')
  const foreign = /^[a-z][\w+.-]*:|^[\\/]|[?#\0\\]/i.test(path) || path.split('/').includes('..')
  return foreign || path.length > 1000 || !isPicturePath(path) ? null : path
}

/** The same of an address in Markdown, where a space is written as %20. */
export function pictureInMarkdown(address: string, folder: string): string | null {
  try {
    return pictureInWorkspace(decodeURIComponent(address), folder)
  } catch {
    return null
  }
}

const mentionedMax = 4
/** The pictures that a prompt names behind an @, as those that were put in with it are. */
export const picturesMentioned = (prompt: string, folder: string): readonly string[] =>
  [
    ...new Set([...prompt.matchAll(/(?:^|\s)@([^\s@]{1,1000})/g)].flatMap(([, path]) => pictureInWorkspace(path!, folder) ?? [])),
  ].slice(0, mentionedMax)
