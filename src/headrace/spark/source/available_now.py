"""Where a run with the trigger AvailableNow ends: where the partitions ended when it began.

A topic that is deleted and created again during the run ends elsewhere. With the end of the old
topic the run would pass over records that the new one does not have yet, and never read them.
"""

from collections.abc import Mapping

from headrace.model.ids import TopicPartition
from headrace.spark.source.cluster_topic_ids import ClusterTopicIds
from headrace.spark.source.data_loss import created_again, report_loss
from headrace.spark.source.offset_finder import OffsetFinder
from headrace.spark.source.offset_json import Offsets


class AvailableNowTarget:
    """The ends that a run reads up to, and the ids of the topics that they are of."""

    def __init__(self, ends: Offsets, ids: ClusterTopicIds) -> None:
        self.ends: Mapping[TopicPartition, int] = ends
        self.ids = ids

    def refresh(self, finder: OffsetFinder, *, fail: bool) -> None:
        """Take the ends of topics that were created again, as they are now.

        Raises:
            DataLoss: there is such a topic, and `fail` is set.
        """
        replaced = finder.replaced_topics(self.ids)
        if not replaced:
            return
        for topic in sorted(replaced):
            report_loss(created_again(topic), fail=fail)
        listed = [each for each in finder.remaining_partitions() if each.topic in replaced]
        # The ids of before the ends: a topic that is replaced in between is found the next time.
        self.ids = self.ids.with_those_of(replaced, finder.topic_ids)
        kept = {each: end for each, end in self.ends.items() if each.topic not in replaced}
        self.ends = kept | finder.latest(listed)
