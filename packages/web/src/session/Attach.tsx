import { sizeWords } from '@anchorhold/core/size-words'
import type { SessionId } from '@anchorhold/protocol/ids'
import { workspaceBounds } from '@anchorhold/protocol/workspace'
import { Paperclip } from 'lucide-react'
import { useRef, useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'

/** Puts files into the session's workspace, one after the other, and tells what each is called there. */
export function useUploads(session: SessionId, onPut: (path: string) => void) {
  const [left, setLeft] = useState(0)
  const [trouble, setTrouble] = useState<string | null>(null)
  const upload = async (files: readonly File[]) => {
    setTrouble(null)
    setLeft((now) => now + files.length)
    for (const file of files) {
      try {
        if (file.size > workspaceBounds.uploadBytes)
          throw new TooLarge(`“${file.name}” is larger than ${sizeWords(workspaceBounds.uploadBytes)}`)
        const data = await base64Of(file)
        onPut((await daemon.uploadFile({ params: { id: session }, body: { name: file.name || 'pasted', data } })).path)
      } catch (error) {
        setTrouble(error instanceof TooLarge ? error.message : wordsOf(error))
      } finally {
        setLeft((now) => now - 1)
      }
    }
  }
  return { upload, trouble, busy: left > 0 }
}
class TooLarge extends Error {}

async function base64Of(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer())
  let text = ''
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
  return btoa(text)
}

export function AttachButton({ busy, onFiles }: { readonly busy: boolean; readonly onFiles: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files to upload to the workspace"
        onChange={(event) => {
          onFiles([...(event.target.files ?? [])])
          event.target.value = ''
        }}
      />
      <button
        type="button"
        aria-label={busy ? 'Uploading files to the workspace…' : 'Upload files to the workspace'}
        title="Upload files to the workspace"
        aria-busy={busy}
        onClick={() => input.current?.click()}
        className="grid size-11 shrink-0 place-items-center rounded-full text-soft hover:bg-raised hover:text-ink"
      >
        <Paperclip size={18} aria-hidden className={busy ? 'working-dot' : ''} />
      </button>
    </>
  )
}
