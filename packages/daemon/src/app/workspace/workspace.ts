import type { Actor } from '@anchorhold/core/actors'
import { type Picture, pictureOf, picturePixelsMax } from '@anchorhold/core/picture'
import { sizeWords } from '@anchorhold/core/size-words'
import { uploadName } from '@anchorhold/core/upload-name'
import type { Upload } from '@anchorhold/protocol/api/workspace'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { KeeperCommand } from '@anchorhold/protocol/keeper-commands'
import {
  type Changes,
  type FileList,
  type FileText,
  SlashCommand,
  slashCommandsMax,
  type Uploaded,
  type WorkspaceAnswer,
  workspaceAnswers,
  type WorkspaceAsk,
  workspaceBounds,
} from '@anchorhold/protocol/workspace'
import { z } from 'zod'
import type { SessionRow } from '../../store/store.ts'
import { isLost } from '@anchorhold/link/attach'
import { isLeaving } from '../prompts/deliver.ts'
import { transaction, type Writes } from '../../transaction.ts'
import { by, type Parts, type Reads, require, sessionFor } from '../parts.ts'

/** How often a keeper may leave just when it is asked. */
const triesMax = 3

/** Has the session's keeper do something in its cell, and starts one where there is none: a workspace is looked at from inside, by
 *  nothing of the host's. */
export async function inCell(parts: Reads & Pick<Parts, 'keepers'>, id: SessionId, command: KeeperCommand): Promise<unknown> {
  for (let tries = 1; ; tries++) {
    sessionFor(parts, id, 'enter')
    await parts.keepers.ensure(id)
    try {
      return await parts.keepers.do(id, command)
    } catch (error) {
      const isGone = isLeaving(error) || (isLost(error) && !parts.keepers.has(id))
      if (!isGone || tries === triesMax) throw error
      await parts.keepers.gone(id)
      // It could not start its cell: it would not the next time either.
      const { state, why } = sessionFor(parts, id, null)
      if (state === 'failed')
        throw new Failure('cell_unavailable', `Cannot enter the cell of session "${id}": ${why ?? 'it failed'}`)
    }
  }
}

async function ask<A extends WorkspaceAsk['ask']>(
  parts: Reads & Pick<Parts, 'keepers'>,
  id: SessionId,
  asked: Extract<WorkspaceAsk, { ask: A }>,
): Promise<WorkspaceAnswer<A>> {
  const found = await inCell(parts, id, { do: 'workspace', asked })
  return workspaceAnswers[asked.ask].parse(found) as WorkspaceAnswer<A>
}

/** Who may only look at a session sees what was said and done; its files are for those who work on it. */
export function changes(
  parts: Reads & Pick<Parts, 'keepers'>,
  actor: Actor,
  id: SessionId,
  against: 'head' | 'start',
): Promise<Changes> {
  require(parts, actor, 'session.work', id)
  return ask(parts, id, { ask: 'changes', since: against === 'head' ? 'head' : commitAtStart(sessionFor(parts, id, 'enter')) })
}

/** What was checked out before the session's first turn; an empty repository where there was none. */
function commitAtStart({ id, baseCommit }: SessionRow): string {
  if (baseCommit !== 'unknown') return baseCommit ?? 'none'
  throw new Failure('wrong_state', `Cannot tell what session "${id}" began with: it is older than this was written down`, {
    hint: 'Look at what differs from the last commit',
  })
}

export function listFiles(parts: Reads & Pick<Parts, 'keepers'>, actor: Actor, id: SessionId, path: string): Promise<FileList> {
  require(parts, actor, 'session.work', id)
  return ask(parts, id, { ask: 'list', path })
}

export function readFile(parts: Reads & Pick<Parts, 'keepers'>, actor: Actor, id: SessionId, path: string): Promise<FileText> {
  require(parts, actor, 'session.work', id)
  return ask(parts, id, { ask: 'read', path })
}

export async function downloadFile(
  parts: Reads & Pick<Parts, 'keepers'>,
  actor: Actor,
  id: SessionId,
  path: string,
): Promise<Buffer> {
  require(parts, actor, 'session.work', id)
  return Buffer.from((await ask(parts, id, { ask: 'bytes', path })).base64, 'base64')
}

/** Only what a page may show: the kind is told by its bytes, whatever it is called, and its size holds for what it takes to draw. */
export async function showPicture(
  parts: Reads & Pick<Parts, 'keepers'>,
  actor: Actor,
  id: SessionId,
  path: string,
): Promise<{ readonly type: Picture['type']; readonly content: Buffer }> {
  const content = await downloadFile(parts, actor, id, path)
  const picture = pictureOf(content)
  const no = `Cannot show ${JSON.stringify(path)}`
  if (picture === null) throw new Failure('bad_request', `${no}: it is no PNG, JPEG, GIF or WebP`)
  if (content.length > workspaceBounds.pictureBytes || picture.width * picture.height > picturePixelsMax)
    throw new Failure('too_large', `${no}: it is too large for a page`, { hint: 'Download it' })
  return { type: picture.type, content }
}

export async function uploadFile(
  parts: Writes & Pick<Parts, 'keepers'>,
  actor: Actor,
  id: SessionId,
  { name, data }: Upload,
): Promise<Uploaded> {
  require(parts, actor, 'session.work', id)
  const bytes = Buffer.byteLength(data, 'base64')
  if (bytes > workspaceBounds.uploadBytes)
    throw new Failure('too_large', `The file is larger than ${sizeWords(workspaceBounds.uploadBytes)}`)
  const put = await ask(parts, id, { ask: 'put', name: uploadName(name), base64: data })
  transaction(parts, (tx) => tx.record(id, { type: 'file.uploaded', body: { path: put.path, bytes, ...by(actor) } }))
  return put
}

export async function completions(
  parts: Reads & Pick<Parts, 'keepers'>,
  actor: Actor,
  id: SessionId,
): Promise<{ readonly commands: SlashCommand[]; readonly files: WorkspaceAnswer<'names'> }> {
  require(parts, actor, 'session.work', id)
  const [commands, files] = await Promise.all([inCell(parts, id, { do: 'commands' }), ask(parts, id, { ask: 'names' })])
  return { commands: z.array(SlashCommand).max(slashCommandsMax).parse(commands), files }
}
