import { CatchBoundary } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { Button, Empty } from '../ui/controls.tsx'

/** Stands where a screen could not be shown. */
export function Broken() {
  return (
    <div role="alert" className="flex-1">
      <Empty title="This could not be shown">
        A part of the app did not load, or has a fault. Nothing you wrote is lost.
        <span className="mt-4 flex justify-center">
          <Button look="primary" onClick={() => location.reload()}>
            Reload
          </Button>
        </span>
      </Empty>
    </div>
  )
}

/** Keeps what goes wrong in one row from taking the others along. */
export function RowBoundary({ of, children }: { readonly of: string; readonly children: ReactNode }) {
  return (
    <CatchBoundary getResetKey={() => of} errorComponent={BrokenRow}>
      {children}
    </CatchBoundary>
  )
}

/** The same for a whole view. */
export function ViewBoundary({ of, children }: { readonly of: string; readonly children: ReactNode }) {
  return (
    <CatchBoundary getResetKey={() => of} errorComponent={Broken}>
      {children}
    </CatchBoundary>
  )
}

function BrokenRow() {
  return <p className="text-sm text-faint">This could not be shown here. It is in the log all the same.</p>
}
