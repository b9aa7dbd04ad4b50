//! Whose configuration a message is about.

use metadata::ids::BrokerId;
use metadata::record::ConfigResource;

use super::Malformed;
use crate::v1;
use crate::v1::config_resource::Resource;

impl From<&ConfigResource> for v1::ConfigResource {
    fn from(resource: &ConfigResource) -> Self {
        let resource = match resource {
            ConfigResource::Topic(name) => Resource::Topic(name.clone()),
            ConfigResource::Broker(broker) => Resource::Broker(broker.0),
            ConfigResource::ClusterDefault => Resource::AllBrokers(true),
            ConfigResource::Group(name) => Resource::Group(name.clone()),
            ConfigResource::ClientMetrics(name) => Resource::ClientMetrics(name.clone()),
        };
        Self {
            resource: Some(resource),
        }
    }
}

impl TryFrom<v1::ConfigResource> for ConfigResource {
    type Error = Malformed;

    fn try_from(message: v1::ConfigResource) -> Result<Self, Malformed> {
        match message.resource {
            Some(Resource::Topic(name)) => Ok(Self::Topic(name)),
            Some(Resource::Broker(broker)) => Ok(Self::Broker(BrokerId(broker))),
            Some(Resource::AllBrokers(true)) => Ok(Self::ClusterDefault),
            Some(Resource::Group(name)) => Ok(Self::Group(name)),
            Some(Resource::ClientMetrics(name)) => Ok(Self::ClientMetrics(name)),
            Some(Resource::AllBrokers(false)) | None => Err(Malformed::new("resource", "none is named")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn a_resource_survives_the_wire() {
        let resources = [
            ConfigResource::Topic("orders".into()),
            ConfigResource::Broker(BrokerId(2)),
            ConfigResource::ClusterDefault,
            ConfigResource::Group("g".into()),
            ConfigResource::ClientMetrics("m".into()),
        ];
        for resource in resources {
            let message = v1::ConfigResource::from(&resource);
            assert_eq!(ConfigResource::try_from(message).unwrap(), resource);
        }
    }

    #[test]
    fn a_resource_that_is_none_is_malformed() {
        let error = ConfigResource::try_from(v1::ConfigResource::default()).unwrap_err();
        assert_eq!(error.field, "resource");
    }
}
