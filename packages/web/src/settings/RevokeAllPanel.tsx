import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { Button, Dialog, Trouble } from '../ui/controls.tsx'
import { accountQuery } from './account-query.ts'
import { Panel } from './SettingsFrame.tsx'
import { tokensQuery } from './TokensPanel.tsx'

/** For when something was lost or given away: nothing of one's own is let in any more but this device. */
export function RevokeAllPanel() {
  const cache = useQueryClient()
  const [asking, setAsking] = useState(false)
  const revoke = useMutation({
    mutationFn: () => daemon.revokeOthers({ body: { tokens: true } }),
    async onSuccess() {
      setAsking(false)
      await Promise.all([accountQuery, tokensQuery].map(({ queryKey }) => cache.invalidateQueries({ queryKey })))
    },
  })
  return (
    <Panel
      title="Revoke everything"
      about="Logs out every device but this one and revokes every token. Only the command line of the machine itself keeps its own."
    >
      <Button className="justify-self-start text-danger" onClick={() => setAsking(true)}>
        Revoke all devices and tokens…
      </Button>
      {revoke.data !== undefined && (
        <p role="status" className="text-sm text-good">
          Revoked: {revoke.data.revoked}.
        </p>
      )}
      <Dialog open={asking} title="Revoke all devices and tokens?" onClose={() => setAsking(false)}>
        <p className="mt-2 text-soft">Programs that use your tokens stop working, and what is open elsewhere ends at once.</p>
        {revoke.error !== null && (
          <div className="mt-4">
            <Trouble>{wordsOf(revoke.error)}</Trouble>
          </div>
        )}
        <div className="mt-6 flex justify-end gap-2">
          <Button onClick={() => setAsking(false)}>Cancel</Button>
          <Button look="danger" disabled={revoke.isPending} onClick={() => revoke.mutate()}>
            Revoke all
          </Button>
        </div>
      </Dialog>
    </Panel>
  )
}
