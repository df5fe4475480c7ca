import { z } from 'zod'
import { Changes, FileList, FileNames, FileText, SlashCommand, Uploaded, workspaceBounds, WorkspacePath } from '../workspace.ts'
import { type Route, session } from './route.ts'

const path = { query: z.strictObject({ path: WorkspacePath }) }

export const Upload = z.strictObject({
  name: z.string().min(1).max(500).describe('What it was called; it is given a name that does no harm, and replaces nothing'),
  data: z.base64().max(Math.ceil((workspaceBounds.uploadBytes * 4) / 3) + 4),
})
export type Upload = z.infer<typeof Upload>

export const workspaceRoutes = {
  changes: {
    summary:
      'What differs from the last commit, or from what the session began with, by file, untracked files too: git, run in the cell',
    ...session,
    query: z.strictObject({ against: z.enum(['head', 'start']).optional() }),
    status: 200,
    response: Changes,
  },
  listFiles: {
    summary: 'A folder of the workspace, as the cell sees it',
    ...session,
    ...path,
    status: 200,
    response: FileList,
  },
  readFile: {
    summary: 'The text of a file of the workspace, up to a limit',
    ...session,
    ...path,
    status: 200,
    response: FileText,
  },
  downloadFile: {
    summary: 'A file of the workspace as it is, as an attachment',
    ...session,
    ...path,
    status: 200,
    response: z.unknown(),
  },
  showPicture: {
    summary: 'A PNG, JPEG, GIF or WebP of the workspace, to be shown: known by its bytes, up to a limit',
    ...session,
    ...path,
    status: 200,
    response: z.unknown(),
  },
  uploadFile: {
    summary: 'Put a file into the folder uploads of the workspace',
    ...session,
    body: Upload,
    status: 201,
    response: Uploaded,
  },
  completions: {
    summary: 'What a prompt may name: commands of the agent, files of the workspace',
    ...session,
    status: 200,
    response: z.object({ commands: z.array(SlashCommand), files: FileNames }),
  },
} as const satisfies Record<string, Route>
