import { z } from 'zod'

/** What is in a session's workspace, as its cell sees it. All of it comes out of a cell: bounded here, trusted by nobody. */

export const workspaceBounds = {
  entries: 2000,
  names: 5000,
  /** Of a file that is shown. */
  textBytes: 512 * 1024,
  downloadBytes: 20 * 1024 * 1024,
  pictureBytes: 10 * 1024 * 1024,
  uploadBytes: 10 * 1024 * 1024,
  changedFiles: 500,
  /** Of one file's changes, and of all. */
  patchChars: 100_000,
  patchesChars: 2_000_000,
} as const

/** Where in the workspace: relative, and never out of it by its words. Where its links lead is looked at when it is opened. */
export const WorkspacePath = z
  .string()
  .max(4096)
  .refine(
    (path) => !path.startsWith('/') && !path.includes('\0') && !path.split('/').includes('..'),
    'a path inside the workspace',
  )

const Path = z.string().max(5000)

export const FileEntry = z.object({
  name: Path,
  kind: z.enum(['file', 'folder', 'link', 'other']),
  size: z.number().min(0),
  changed_at: z.number(),
})
export type FileEntry = z.infer<typeof FileEntry>

export const FileList = z.object({ entries: z.array(FileEntry).max(workspaceBounds.entries), more: z.boolean() })
export type FileList = z.infer<typeof FileList>

export const FileText = z.object({
  size: z.number().min(0),
  /** None for what is no text. */
  text: z.string().max(workspaceBounds.textBytes).nullable(),
  truncated: z.boolean(),
})
export type FileText = z.infer<typeof FileText>

export const FileBytes = z.object({ base64: z.string().max(Math.ceil((workspaceBounds.downloadBytes * 4) / 3) + 4) })

export const Uploaded = z.object({ path: Path.describe('Where in the workspace it lies now') })
export type Uploaded = z.infer<typeof Uploaded>

export const ChangedFile = z.object({
  path: Path,
  /** What a renamed file was called. */
  from: Path.nullable(),
  status: z.enum(['added', 'modified', 'deleted', 'renamed', 'untracked']),
  /** Lines; none for what is no text. */
  added: z.int().min(0).nullable(),
  removed: z.int().min(0).nullable(),
  binary: z.boolean(),
  /** The changed lines as `git diff` has them; none where they would be too many. */
  patch: z.string().max(workspaceBounds.patchChars).nullable(),
  truncated: z.boolean(),
})
export type ChangedFile = z.infer<typeof ChangedFile>

export const Changes = z.union([
  z.object({ git: z.literal(false), why: z.enum(['no_repository', 'no_git', 'unreadable']), message: z.string().max(2000) }),
  z.object({
    git: z.literal(true),
    branch: z.string().max(1000).nullable(),
    /** The commit that the files are held against; none where they are held against nothing. */
    head: z.object({ hash: z.string().max(100), subject: z.string().max(1000) }).nullable(),
    files: z.array(ChangedFile).max(workspaceBounds.changedFiles),
    more: z.boolean(),
  }),
])
export type Changes = z.infer<typeof Changes>

export const FileNames = z.object({ names: z.array(Path).max(workspaceBounds.names), more: z.boolean() })

/** A command that the agent knows by its name. */
export const SlashCommand = z.object({ name: z.string().max(200), description: z.string().max(1000), hint: z.string().max(200) })
export type SlashCommand = z.infer<typeof SlashCommand>
export const slashCommandsMax = 500

const Commit = z.string().regex(/^[0-9a-f]{40,64}$/)

/** What a workspace's repository has checked out; nothing where there is none, or no commit yet. */
export const CheckedOut = z.object({ branch: z.string().max(1000).nullable(), commit: Commit.nullable() })
export type CheckedOut = z.infer<typeof CheckedOut>
export const nothingCheckedOut: CheckedOut = { branch: null, commit: null }

/** What is asked of a workspace, in its cell. */
export const WorkspaceAsk = z.discriminatedUnion('ask', [
  z.object({ ask: z.literal('list'), path: WorkspacePath }),
  z.object({ ask: z.literal('read'), path: WorkspacePath }),
  z.object({ ask: z.literal('bytes'), path: WorkspacePath }),
  z.object({ ask: z.literal('put'), name: z.string().regex(/^[^/\0]{1,200}$/), base64: z.string() }),
  z.object({ ask: z.literal('names') }),
  z.object({ ask: z.literal('checked_out') }),
  /** Held against the last commit, or against another one; `none` is an empty repository. */
  z.object({
    ask: z.literal('changes'),
    since: z.union([z.literal('head'), z.literal('none'), Commit]),
  }),
])
export type WorkspaceAsk = z.infer<typeof WorkspaceAsk>

/** What each of them is answered with. */
export const workspaceAnswers = {
  list: FileList,
  read: FileText,
  bytes: FileBytes,
  put: Uploaded,
  names: FileNames,
  checked_out: CheckedOut,
  changes: Changes,
} as const satisfies Record<WorkspaceAsk['ask'], z.ZodType>
export type WorkspaceAnswer<A extends WorkspaceAsk['ask']> = z.infer<(typeof workspaceAnswers)[A]>
