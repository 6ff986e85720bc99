"""A service that is killed under writes; the campaign does it 20 times."""

import pytest
from absl.testing import absltest

from tests.campaigns import killed_service

pytest.importorskip("fastapi", reason="`pip install 'vdsh_tf[serve]'`")


class KilledTest(absltest.TestCase):
    def test_nothing_is_lost(self):
        found = killed_service.campaign(kills=2, seed=1, most=0.5)
        self.assertLen(found, 2)
        self.assertGreater(found[-1]["acknowledged"], 0)


if __name__ == "__main__":
    absltest.main()
