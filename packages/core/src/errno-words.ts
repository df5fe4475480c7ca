/** Why a file or folder could not be read or made, in words for whoever has named it. */
export function errnoWords(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return words[code] ?? (error instanceof Error ? error.message : String(error))
}

const words: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  EACCES: 'this user may not',
  EPERM: 'this user may not',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is not a folder',
  EEXIST: 'something else has this name',
  EROFS: 'its file system is read-only',
  ENOSPC: 'the disk is full',
  ENAMETOOLONG: 'its name is too long',
}
